"""What `outbox status` shows, as plain values: the overview, its problems, and the timeline of one event.

The shapes are fixed: `overview()` and `timeline()` return what `--json` prints. History is never counted; the last
hour comes from the counts that settling appends.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID

from outbox.counts import count_open
from outbox.errors import UsageError
from outbox.identity import describe_copy
from outbox.migrate import applied_version
from outbox.problems import OLDEST_WAITING_SECONDS, PIN_SECONDS, PIN_XIDS, Dangers, find_problems
from outbox.reasons import state_and_why
from outbox.rows import named_row, named_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import psycopg

__all__ = ["overview", "timeline"]

COUNTED = ("waiting", "scheduled", "leased", "held", "blocked")


def overview(connection: psycopg.Connection[Any], *, max_due_seconds: float = OLDEST_WAITING_SECONDS) -> dict[str, Any]:
    """Return the state of the whole outbox: database, relays, totals, destinations, problems.

    A delivery that has been due for longer than `max_due_seconds` is a problem.
    """
    relays = [_relay(row) for row in named_rows(connection, "list_relays")]
    counts, is_estimate = count_open(connection)
    rows = named_rows(connection, "list_destinations_for_status")
    destinations = [_destination(row, counts.get(row.id)) for row in rows]
    found = {
        "database": {
            "server_version": connection.info.parameter_status("server_version"),
            "schema_version": applied_version(connection),
        },
        "relays": relays,
        "totals": {**_totals(destinations), "is_estimate": is_estimate},
        "destinations": destinations,
    }
    dangers = Dangers(
        lapsed=sum(row.lapsed for row in counts.values()),
        copy=describe_copy(connection),
        pins=named_rows(connection, "list_horizon_pins", {"min_seconds": PIN_SECONDS, "min_xids": PIN_XIDS}),
        max_due_seconds=max_due_seconds,
    )
    found["problems"] = find_problems(found, dangers)
    for relay in relays:
        del relay["serves"]
    return found


def timeline(connection: psycopg.Connection[Any], event_id: str) -> dict[str, Any]:
    """Return one event, its deliveries with their state and why, and every attempt.

    Raises:
        UsageError: `event_id` is no uuid.
        LookupError: there is no such event; it was never committed, or retention removed it.
    """
    try:
        parameters = {"event_id": UUID(event_id)}
    except ValueError:
        raise UsageError(f"{event_id!r} is not an event id; it is a uuid, as record_event returns it") from None
    event = named_row(connection, "read_event", parameters)
    if event is None:
        raise LookupError(f"no event {event_id}: it was rolled back, never recorded, or removed by retention")
    attempts = named_rows(connection, "list_event_attempts", parameters)
    return {
        "event": {
            "id": event.id,
            "type": event.type,
            "key": event.key,
            "recorded_at": _time(event.recorded_at),
        },
        "deliveries": [
            _delivery(row, [attempt for attempt in attempts if attempt.delivery_id == row.id])
            for row in named_rows(connection, "list_event_deliveries", parameters)
        ],
    }


def _relay(row: Any) -> dict[str, Any]:
    return {
        "id": row.id,
        "name": row.name,
        "state": row.state,
        "is_replaced": row.is_replaced,
        "failing": row.failing,
        "version": row.version,
        "doorbell": row.doorbell,
        "heartbeat_age_seconds": round(row.heartbeat_age_seconds, 3),
        "in_flight": row.in_flight,
        "concurrency": row.concurrency,
        "serves": row.serves if isinstance(row.serves, dict) else json.loads(row.serves),
    }


def _destination(row: Any, counts: Any) -> dict[str, Any]:
    numbers = {name: int(getattr(counts, name, 0) or 0) for name in ("waiting", "scheduled", "leased", "blocked")}
    is_held = row.state != "active" or row.held_until is not None or row.removed_at is not None
    held = 0
    if is_held:
        held = numbers["waiting"] + numbers["scheduled"] + numbers["blocked"]
        numbers.update(waiting=0, scheduled=0, blocked=0)
    oldest = getattr(counts, "oldest_waiting_seconds", None)
    return {
        "name": row.name,
        "sink": row.sink,
        "state": "removed" if row.removed_at is not None else row.state,
        "reason": row.state_reason,
        "since": (row.removed_at or row.state_changed_at).isoformat(timespec="seconds"),
        "held_until": _time(row.held_until),
        "waiting": numbers["waiting"],
        "scheduled": numbers["scheduled"],
        "leased": numbers["leased"],
        "held": held,
        "blocked": numbers["blocked"],
        "dead": row.dead,
        "oldest_waiting_seconds": None if is_held or oldest is None else round(oldest, 3),
        "delivered_last_hour": row.delivered_last_hour,
        "failed_last_hour": row.failed_last_hour,
    }


def _totals(destinations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    ages = [found["oldest_waiting_seconds"] for found in destinations if found["oldest_waiting_seconds"] is not None]
    totals: dict[str, Any] = {name: sum(found[name] for found in destinations) for name in (*COUNTED, "dead")}
    totals["oldest_waiting_seconds"] = max(ages, default=None)
    return totals


def _delivery(row: Any, attempts: Sequence[Any]) -> dict[str, Any]:
    state, why = state_and_why(row, attempts[-1] if attempts else None)
    return {
        "id": row.id,
        "destination": row.destination,
        "recipient": row.recipient,
        "state": state,
        "why": why,
        "next_attempt_at": _time(row.due_at) if row.place == "open" and not row.is_leased else None,
        "attempts": [
            {
                "attempt": attempt.attempt,
                "started_at": _time(attempt.started_at),
                "duration_ms": attempt.duration_ms,
                "outcome": attempt.outcome,
                "reason": attempt.reason,
                "certainty": attempt.certainty,
                "status": attempt.status,
                "detail": attempt.detail,
                "relay": attempt.relay,
            }
            for attempt in attempts
        ],
    }


def _time(moment: datetime | None) -> str | None:
    """Return a timestamp with its offset."""
    return None if moment is None else moment.isoformat()
