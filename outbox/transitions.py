"""When and why a destination's state changed: trips, pauses, disabling and returns, whoever did it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outbox.rows import named_rows

if TYPE_CHECKING:
    import psycopg

__all__ = ["list_transitions"]


def list_transitions(connection: psycopg.Connection[Any], destination_id: int, limit: int = 10) -> list[dict[str, Any]]:
    """Return the last changes of a destination's state, the latest first; at most 100 are kept."""
    rows = named_rows(connection, "list_transitions", {"id": destination_id, "limit": limit})
    return [
        {
            "happened_at": row.happened_at.isoformat(timespec="seconds"),
            "former_state": row.former_state,
            "state": row.state,
            "reason": row.reason,
        }
        for row in rows
    ]
