"""Says in words why a delivery is not delivered yet. Pure, no I/O."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from outbox.model import DeliveryState

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["state_and_why"]

RETRY_AFTER = re.compile(r"\S+ answered \d{3} with (retry-after \d+ s)")
"""How the detail of an attempt begins whose answer asked for a wait (relays/sinks/webhook/outcomes.py)."""


def state_and_why(row: Any, last_attempt: Any) -> tuple[DeliveryState, str]:
    """Return the state of a delivery and the reason, from its row (list_event_deliveries) and its last attempt."""
    match row.place:
        case "delivered":
            return DeliveryState.DELIVERED, f"delivered at {_time(last_attempt.started_at)}"
        case "discarded":
            return DeliveryState.DISCARDED, last_attempt.detail or "discarded by an operator"
        case "dead":
            return DeliveryState.DEAD, f"given up after attempt {row.attempt}: {row.reason}; redrive or discard it"
        case _:
            return _open(row, last_attempt)


def _open(row: Any, last_attempt: Any) -> tuple[DeliveryState, str]:
    if row.is_leased:
        return DeliveryState.LEASED, f"being sent by relay {row.relay_id}, leased until {_time(row.leased_until)}"
    if held := _held(row):
        return DeliveryState.HELD, held
    if row.blocked_by_event is not None:
        return DeliveryState.BLOCKED, f"waits for event {row.blocked_by_event} of the same key {row.key!r}"
    if row.blocked_by_dead_event is not None:
        return DeliveryState.BLOCKED, (
            f"its key {row.key!r} is closed by dead event {row.blocked_by_dead_event} (on_dead = block);"
            " redrive or discard that one"
        )
    if row.is_later:
        return DeliveryState.SCHEDULED, _later(row, last_attempt)
    return DeliveryState.WAITING, _waiting(row)


def _held(row: Any) -> str | None:
    name = row.destination
    if row.removed_at is not None:
        return f"destination {name} was removed at {_time(row.removed_at)}; discard its deliveries, or resume it"
    if row.destination_state != "active":
        because = f" because {row.state_reason}" if row.state_reason else ""
        return f"destination {name} is {row.destination_state} since {_time(row.state_changed_at)}{because}"
    if row.held_until is not None:
        because = row.state_reason or "it asked for a pause"
        return f"destination {name} is held until {_time(row.held_until)}: {because}"
    return None


def _later(row: Any, last_attempt: Any) -> str:
    if last_attempt is None or last_attempt.outcome not in {"retry", "interrupted"}:
        return f"scheduled for {_time(row.due_at)}"
    after = f"after attempt {last_attempt.attempt}: {last_attempt.reason}"
    if last_attempt.reason == "retry_later":
        return f"its handler asked to wait (RetryLater): not before {_time(row.due_at)}, {after}"
    if asked := RETRY_AFTER.match(last_attempt.detail or ""):
        return f"the destination asked to wait ({asked[1]}): not before {_time(row.due_at)}, {after}"
    return f"backoff until {_time(row.due_at)} {after}"


def _waiting(row: Any) -> str:
    if row.is_lapsed:
        return f"its lease lapsed at {_time(row.leased_until)}: relay {row.relay_id} died or stalled; to be recovered"
    if not row.is_relay_alive:
        return "no relay is alive; start outbox-relay"
    if not row.is_served:
        return f"no running relay serves destination {row.destination} (--only, a missing sink or a missing handler)"
    return f"due since {_time(row.due_at)}, a relay will take it"


def _time(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="seconds")
