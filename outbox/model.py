"""The words of the project as values. No I/O here."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

__all__ = ["Certainty", "DeliveryState", "Destination", "DestinationState", "Event", "Outcome"]


class Outcome(StrEnum):
    """How one attempt ended, or what an operator did (`outbox.outcome`)."""

    DELIVERED = "delivered"
    RETRY = "retry"
    DEAD = "dead"
    INTERRUPTED = "interrupted"
    RELEASED = "released"
    REDRIVEN = "redriven"
    REPLAYED = "replayed"
    DISCARDED = "discarded"


class Certainty(StrEnum):
    """What is known about the other side after an attempt (`outbox.certainty`)."""

    NOT_SENT = "not_sent"
    AMBIGUOUS = "ambiguous"
    ANSWERED = "answered"


class DeliveryState(StrEnum):
    """States of a delivery as users see them."""

    WAITING = "waiting"
    SCHEDULED = "scheduled"
    LEASED = "leased"
    HELD = "held"
    BLOCKED = "blocked"
    DELIVERED = "delivered"
    DEAD = "dead"
    DISCARDED = "discarded"


class DestinationState(StrEnum):
    """States of a destination (`outbox.destination_state`); only `active` is claimed for."""

    ACTIVE = "active"
    TRIPPED = "tripped"
    PAUSED = "paused"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class Event:
    """One event for `record_events`, with the same arguments as `record_event`."""

    type: str
    payload: Any = field(default_factory=dict)
    key: str | None = None
    idempotency_key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    due_at: datetime | None = None
    delay: timedelta | float | None = None
    destination: str | None = None


@dataclass(frozen=True, slots=True)
class Destination:
    """A row of `outbox.destinations`: a named target with its sink's settings and its delivery policy.

    `settings` and `policy` are the stored JSON objects, defaults not filled in; `version` is fresh at every
    change, so `(id, version)` identifies a parsed form of them.
    """

    id: int
    name: str
    sink: str
    event_types: tuple[str, ...]
    settings: Mapping[str, Any]
    policy: Mapping[str, Any]
    state: DestinationState
    state_reason: str | None
    state_changed_at: datetime
    held_until: datetime | None
    version: int

    @classmethod
    def from_row(cls, row: Any) -> Destination:
        """Return the destination in a row of `list_destinations`, whose values have the names of these fields."""
        return cls(
            id=row.id,
            name=row.name,
            sink=row.sink,
            event_types=tuple(row.event_types),
            settings=row.settings,
            policy=row.policy,
            state=DestinationState(row.state),
            state_reason=row.state_reason,
            state_changed_at=row.state_changed_at,
            held_until=row.held_until,
            version=row.version,
        )
