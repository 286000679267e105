"""What keeps deliveries from being tried, asked before many are set going."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outbox.rows import named_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    import psycopg

__all__ = ["obstacles"]


def obstacles(connection: psycopg.Connection[Any], destination_ids: Iterable[int]) -> list[str]:
    """Return what keeps deliveries of these destinations from being tried, with the remedy; nothing: they are."""
    found = [_held(row) for row in named_rows(connection, "list_obstacles", {"ids": list(destination_ids)})]
    if not any(relay.state == "running" for relay in named_rows(connection, "list_relays")):
        found.append("no relay is alive; start outbox-relay")
    return found


def _held(row: Any) -> str:
    state = "held" if row.state == "active" else row.state
    because = f" ({row.state_reason})" if row.state_reason else ""
    return f"destination {row.name} is {state}{because}; outbox destinations resume {row.name}"
