"""Replays: deliver again what was delivered, under the same identity."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from psycopg.rows import namedtuple_row

from outbox.bulk import Taken
from outbox.queries import query
from outbox.rows import named_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    import psycopg

    from outbox.selection import Selection

__all__ = ["Replay", "find_replayable"]

UUID_BYTES = 16
PAGE_ROWS = 10_000


@dataclass(slots=True)
class Replay:
    """The deliveries of one replay, in the order of their ids: 24 bytes each, so that history is read once.

    `until` is when they were looked for: what is delivered after it is not taken by a run with the same `until`.
    """

    connection: psycopg.Connection[Any]
    until: datetime
    actor: str
    destination_ids: set[int] = field(default_factory=set)
    _delivery_ids: array[int] = field(default_factory=lambda: array("q"))
    _event_ids: bytearray = field(default_factory=bytearray)
    _position: int = 0

    def __len__(self) -> int:
        """Return how many deliveries there are."""
        return len(self._delivery_ids)

    def add(self, delivery_id: int, event_id: UUID, destination_id: int) -> None:
        """Add one."""
        self.destination_ids.add(destination_id)
        self._delivery_ids.append(delivery_id)
        self._event_ids += event_id.bytes

    def samples(self, limit: int) -> list[dict[str, Any]]:
        """Return the first ones, as people may see them."""
        parameters = {
            "ids": list(self._delivery_ids[:limit]),
            "event_ids": [self._event(position) for position in range(min(limit, len(self)))],
        }
        return [row._asdict() for row in named_rows(self.connection, "list_delivered", parameters)]

    def step(self, batch: int) -> list[Taken]:
        """Set up to `batch` going again; those that are open, dead or delivered again by now are passed over."""
        while self._position < len(self):
            start, self._position = self._position, min(self._position + batch, len(self))
            parameters = {
                "ids": list(self._delivery_ids[start : self._position]),
                "event_ids": [self._event(position) for position in range(start, self._position)],
                "until": self.until,
                "actor": f"by {self.actor}",
            }
            rows = self._replay(parameters)
            if rows:
                return [Taken(row.delivery_id, row.event_id) for row in rows]
        return []

    def _replay(self, parameters: dict[str, Any]) -> list[Any]:
        """Carry out one batch, and no other replay's meanwhile.

        The statement sees deliveries as they were when it began. What another replay opened since, and a relay has
        delivered already, would still look delivered and not open: it would be sent once more. The lock comes in a
        statement of its own, so that what it waited for is seen.
        """
        with self.connection.transaction():
            self.connection.execute(query("lock_replays"))
            return named_rows(self.connection, "replay_delivered", parameters)

    def _event(self, position: int) -> UUID:
        return UUID(bytes=bytes(self._event_ids[position * UUID_BYTES : (position + 1) * UUID_BYTES]))


def find_replayable(connection: psycopg.Connection[Any], selection: Selection, until: datetime, actor: str) -> Replay:
    """Return what a selection has delivered before `until` and not after it; `actor` is written into the timeline."""
    found = Replay(connection, until, actor)
    for row in _replayable(connection, {**selection.parameters(), "until": until}):
        found.add(row.delivery_id, row.event_id, row.destination_id)
    return found


def _replayable(connection: psycopg.Connection[Any], parameters: dict[str, Any]) -> Iterator[Any]:
    """Read history in pages, in one short transaction: it may be long."""
    with connection.transaction(), connection.cursor(name="replayable", row_factory=namedtuple_row) as cursor:
        cursor.itersize = PAGE_ROWS
        yield from cursor.execute(query("find_replayable"), parameters)
