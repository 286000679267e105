"""A transactional outbox for PostgreSQL: record an event in the transaction of your own rows."""

from __future__ import annotations

from outbox.encoding import JsonText
from outbox.errors import (
    IdempotencyConflict,
    InvalidEvent,
    OutboxError,
    TransactionRequired,
    UsageError,
)
from outbox.model import Event
from outbox.record import arecord_event, arecord_events, record_event, record_events

__all__ = [
    "Event",
    "IdempotencyConflict",
    "InvalidEvent",
    "JsonText",
    "OutboxError",
    "TransactionRequired",
    "UsageError",
    "arecord_event",
    "arecord_events",
    "record_event",
    "record_events",
]
