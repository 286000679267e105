"""Recording: an event becomes part of the caller's transaction (promise caller-commits).

Nothing here begins, commits, rolls back or retries. What the database reports passes through as the driver
raised it, except refusals of class OB, which become this package's own errors with the driver's as their cause.
Either way the transaction is then aborted, as after any failed statement; what Python can refuse by itself is
refused before anything is sent, and leaves the transaction usable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from outbox.connections import adapt, adapt_async
from outbox.drafts import draft_event
from outbox.errors import InvalidEvent, TransactionRequired
from outbox.model import Event
from outbox.refusals import Refusals
from outbox.statements import record_many, record_one

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime, timedelta

    from outbox.drafts import Draft

__all__ = ["arecord_event", "arecord_events", "record_event", "record_events"]

_NO_DATA: Final[dict[str, Any]] = {}
_NO_HEADERS: Final[dict[str, str]] = {}


def record_event(
    conn: Any,
    type: str,  # noqa: A002 - the word of the domain, as in SQL
    payload: Any = _NO_DATA,
    *,
    key: str | None = None,
    idempotency_key: str | None = None,
    headers: Mapping[str, str] = _NO_HEADERS,
    due_at: datetime | None = None,
    delay: timedelta | float | None = None,
    destination: str | None = None,
    allow_autocommit: bool = False,
) -> UUID:
    """Record one event in the transaction of `conn` and return its id.

    `conn` is a psycopg connection or cursor, a SQLAlchemy `Session` or `Connection`, or a Django connection (or
    its alias). `payload` is JSON: dict, list, str, int, float, `Decimal`, bool, None, or `JsonText`. `delay` is a
    timedelta or seconds, counted by the database's clock; `due_at` carries a time zone.

    Raises:
        InvalidEvent: the event cannot be recorded; names the argument or JSON path.
        TransactionRequired: no transaction is open and `allow_autocommit` is false.
        IdempotencyConflict: `idempotency_key` belongs to an event with other content.
    """
    event = Event(type, payload, key, idempotency_key, headers, due_at, delay, destination)
    statement = record_one(draft_event(event))
    connection = adapt(conn)
    _require_transaction(connection.is_atomic() or allow_autocommit)
    with Refusals(connection.role):
        return UUID(connection.run(statement)[0])


def record_events(conn: Any, events: Iterable[Event], *, allow_autocommit: bool = False) -> list[UUID]:
    """Record all `events`, or none, in one round trip, and return their ids in the same order.

    Takes the connections and raises the errors of `record_event`; messages name the position, `events[3]`.
    """
    drafts = _drafts(events)
    connection = adapt(conn)
    _require_transaction(connection.is_atomic() or allow_autocommit)
    if not drafts:
        return []
    with Refusals(connection.role):
        return [UUID(row) for row in connection.run(record_many(drafts))]


async def arecord_event(
    conn: Any,
    type: str,  # noqa: A002 - the word of the domain, as in SQL
    payload: Any = _NO_DATA,
    *,
    key: str | None = None,
    idempotency_key: str | None = None,
    headers: Mapping[str, str] = _NO_HEADERS,
    due_at: datetime | None = None,
    delay: timedelta | float | None = None,
    destination: str | None = None,
    allow_autocommit: bool = False,
) -> UUID:
    """Record one event in the transaction of `conn` and return its id: `record_event` for asyncio.

    `conn` is a psycopg `AsyncConnection` or `AsyncCursor`, a SQLAlchemy `AsyncSession` or `AsyncConnection`, or
    an asyncpg connection, also one lent by a pool.
    """
    event = Event(type, payload, key, idempotency_key, headers, due_at, delay, destination)
    statement = record_one(draft_event(event))
    connection = await adapt_async(conn)
    _require_transaction(connection.is_atomic() or allow_autocommit)
    with Refusals(connection.role):
        return UUID((await connection.run(statement))[0])


async def arecord_events(conn: Any, events: Iterable[Event], *, allow_autocommit: bool = False) -> list[UUID]:
    """Record all `events`, or none, in one round trip: `record_events` for asyncio."""
    drafts = _drafts(events)
    connection = await adapt_async(conn)
    _require_transaction(connection.is_atomic() or allow_autocommit)
    if not drafts:
        return []
    with Refusals(connection.role):
        return [UUID(row) for row in await connection.run(record_many(drafts))]


def _drafts(events: Iterable[Event]) -> list[Draft]:
    drafts: list[Draft] = []
    for event in events:
        if not isinstance(event, Event):
            raise InvalidEvent(
                f"events[{len(drafts)}] is {type(event).__name__}, not an outbox.Event; pass Event(type, …)"
            )
        try:
            drafts.append(draft_event(event))
        except InvalidEvent as error:
            raise InvalidEvent(f"events[{len(drafts)}] {error}") from error
    return drafts


def _require_transaction(is_atomic: bool) -> None:
    if not is_atomic:
        raise TransactionRequired(
            "record_event must run inside the same transaction as your data, and none is open (autocommit);"
            " begin one, or pass allow_autocommit=True if the event stands alone"
        )
