"""Says in words who keeps dead rows from being removed, and how to end it. Pure, no I/O."""

from __future__ import annotations

from typing import Any

from outbox.durations import format_duration

__all__ = ["pinned", "unpinning"]


def pinned(pin: Any) -> str:
    """Return who pins the xmin horizon and for how long, from a row of list_horizon_pins."""
    who = f"{pin.kind} {pin.name}" if pin.pid is None else f"{pin.kind} {pin.pid} ({pin.name})"
    age = "" if pin.age_seconds is None else f", open for {format_duration(pin.age_seconds)}"
    query = "" if pin.query_age_seconds is None else f", its query for {format_duration(pin.query_age_seconds)}"
    return f"{who} is {pin.state}{age}{query}; {pin.xids} transactions since cannot be vacuumed"


def unpinning(pin: Any) -> str:
    """Return what to do about it."""
    match pin.kind:
        case "session":
            return f"end it: select pg_terminate_backend({pin.pid}); and set idle_in_transaction_session_timeout"
        case "prepared transaction":
            return f"commit prepared or rollback prepared '{pin.name}'"
        case "replication slot":
            return f"let its consumer catch up, or select pg_drop_replication_slot('{pin.name}')"
        case _:
            return "look at that standby's queries, or switch off hot_standby_feedback there"
