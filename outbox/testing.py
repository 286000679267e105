"""Tests of applications that record events; a pytest plugin, loaded wherever this package is installed.

    def test_checkout_announces_the_order(connection, outbox_recording):
        with outbox_recording(connection) as recorded:
            checkout(connection, order=17)
        recorded.assert_event("order.paid", payload={"order": 17}, key="customer-3")
        assert [delivery.destination for delivery in recorded.drain()] == ["shop"]

All of it reads and writes through the application's own connection, so it sees what its open transaction recorded
and goes away with a rollback. Without pytest, use `recording` and `drain` directly. asyncio: `arecording`, `adrain`.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pytest

from outbox.connections import adapt, adapt_async
from outbox.statements import Statement

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractContextManager

__all__ = [
    "Recorded",
    "RecordedDelivery",
    "RecordedEvent",
    "adrain",
    "arecording",
    "drain",
    "outbox_recording",
    "recording",
]

_NOW: Final = Statement("""select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')""", ())
_EVENTS: Final = """\
select json_build_object(
    'id', e.id, 'type', e.type, 'payload', e.payload, 'key', e.key, 'headers', e.headers,
    'destinations', array(
        select t.name from outbox.deliveries d join outbox.destinations t on t.id = d.destination_id
        where d.event_id = e.id order by d.id))::text
from outbox.events e
where e.id >= outbox.uuid_floor({}::text::timestamptz) and e.recorded_at >= {}::text::timestamptz
order by e.id"""
_DRAIN: Final = """\
with due as (
    delete from outbox.deliveries d
    where d.lease_token is null and (d.due_at <= clock_timestamp() or {}::text = 'scheduled')
      and d.destination_id in (select t.id from outbox.destinations t where t.state = 'active' and t.removed_at is null)
      and ({}::text is null or d.recorded_at >= {}::text::timestamptz)
    returning d.id, d.event_id, d.destination_id, d.recipient, d.attempt),
history as (
    insert into outbox.attempts (delivery_id, event_id, destination_id, recipient, attempt, started_at, outcome, detail)
    select id, event_id, destination_id, recipient, attempt + 1, clock_timestamp(), 'delivered', 'drained by a test'
    from due)
select json_build_object(
    'id', due.id, 'event_id', e.id, 'destination', t.name, 'type', e.type, 'payload', e.payload, 'key', e.key,
    'headers', e.headers, 'recipient', due.recipient)::text
from due
join outbox.events e on e.id = due.event_id
join outbox.destinations t on t.id = due.destination_id
order by due.id"""


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event as it was recorded; numbers of the payload with a fraction are `Decimal`."""

    id: str
    type: str
    payload: Any
    key: str | None
    headers: dict[str, str]
    destinations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecordedDelivery:
    """One event for one destination, as a sink would get it."""

    id: int
    event_id: str
    destination: str
    type: str
    payload: Any
    key: str | None
    headers: dict[str, str]
    recipient: str | None


_ANY: Final = object()


class Recorded:
    """What was recorded inside a `recording` block; filled when the block ends."""

    def __init__(self) -> None:
        self.events: list[RecordedEvent] = []
        self._drain: Callable[[], list[RecordedDelivery]] = list

    @property
    def types(self) -> list[str]:
        """The types of all events, in the order of recording."""
        return [event.type for event in self.events]

    def assert_event(
        self,
        type: str,  # noqa: A002 - the word of the domain, as in SQL
        *,
        payload: Any = _ANY,
        key: Any = _ANY,
        headers: Any = _ANY,
        destinations: Any = _ANY,
    ) -> RecordedEvent:
        """Return the one event of this type that equals everything given; fail and list what there is otherwise."""
        wanted = {"payload": payload, "key": key, "headers": headers, "destinations": destinations}
        wanted = {name: value for name, value in wanted.items() if value is not _ANY}
        found = [
            event
            for event in self.events
            if event.type == type and all(_equals(getattr(event, name), value) for name, value in wanted.items())
        ]
        if len(found) != 1:
            listed = "\n".join(f"  {event}" for event in self.events) or "  nothing"
            raise AssertionError(f"{len(found)} events are {type} with {wanted}; recorded were:\n{listed}")
        return found[0]

    def assert_nothing(self) -> None:
        """Fail if anything was recorded."""
        if self.events:
            raise AssertionError(f"recorded were: {self.types}")

    def drain(self) -> list[RecordedDelivery]:
        """Deliver what the block recorded to nobody, and return it in order: `drain`, for these events."""
        return self._drain()


@contextmanager
def recording(conn: Any) -> Iterator[Recorded]:
    """Collect the events recorded on `conn` inside the block, committed or not.

    `conn` is whatever `outbox.record_event` takes. Events another session commits meanwhile are seen, too.
    """
    connection = adapt(conn)
    (start,) = connection.run(_NOW)
    recorded = Recorded()
    yield recorded
    recorded.events = [_event(row) for row in connection.run(_events_since(start))]
    recorded._drain = lambda: [_delivery(row) for row in connection.run(_drained(scheduled=True, since=start))]  # noqa: SLF001 - its own module


@asynccontextmanager
async def arecording(conn: Any) -> AsyncIterator[Recorded]:
    """Collect the events recorded on `conn` inside the block: `recording` for asyncio. Drain with `adrain`."""
    connection = await adapt_async(conn)
    (start,) = await connection.run(_NOW)
    recorded = Recorded()
    yield recorded
    recorded.events = [_event(row) for row in await connection.run(_events_since(start))]


def drain(conn: Any, *, scheduled: bool = False) -> list[RecordedDelivery]:
    """Take all due deliveries of active destinations as delivered, in the transaction of `conn`; return them in order.

    With `scheduled`, also those that are due later. Hand each to your own handler or sink as you like.
    """
    return [_delivery(row) for row in adapt(conn).run(_drained(scheduled=scheduled))]


async def adrain(conn: Any, *, scheduled: bool = False) -> list[RecordedDelivery]:
    """Take all due deliveries as delivered: `drain` for asyncio."""
    connection = await adapt_async(conn)
    return [_delivery(row) for row in await connection.run(_drained(scheduled=scheduled))]


@pytest.fixture
def outbox_recording() -> Callable[[Any], AbstractContextManager[Recorded]]:
    """`outbox.testing.recording`, as a fixture."""
    return recording


def _events_since(start: str) -> Statement:
    return Statement(_EVENTS, (start, start))


def _drained(*, scheduled: bool, since: str | None = None) -> Statement:
    return Statement(_DRAIN, ("scheduled" if scheduled else "due", since, since))


def _event(row: str) -> RecordedEvent:
    fields = json.loads(row, parse_float=Decimal)
    return RecordedEvent(**fields | {"destinations": tuple(fields["destinations"])})


def _delivery(row: str) -> RecordedDelivery:
    return RecordedDelivery(**json.loads(row, parse_float=Decimal))


def _equals(found: Any, wanted: Any) -> bool:
    """Compare as JSON does: a float equals the decimal it prints as, a tuple the list of its elements."""
    match wanted:
        case float():
            return bool(found == Decimal(repr(wanted)))
        case dict():
            return (
                isinstance(found, dict)
                and found.keys() == wanted.keys()
                and all(_equals(found[key], value) for key, value in wanted.items())
            )
        case list() | tuple():
            return isinstance(found, list | tuple) and len(found) == len(wanted) and all(map(_equals, found, wanted))
        case _:
            return bool(found == wanted)
