"""Both sides of a run together: what was written down outside, and what the outbox says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.chaos.ledger import Ending, Ledger, Recorded, Sighting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.chaos.history import History

__all__ = ["Evidence", "Name", "name_of", "said_of"]

Name = tuple[str, str, int]
"""Destination, event id, number of the attempt."""


@dataclass
class Evidence:
    """Both sides: what producers and receivers wrote down, and what the outbox says.

    `routes` are the event types each destination is to get, `tries` how many failures make a delivery dead there.
    `outputs` are all that relays printed.
    """

    ledger: Ledger
    history: History
    routes: dict[str, set[str]]
    tries: dict[str, int]
    secrets: tuple[str, ...] = ()
    outputs: list[str] = field(default_factory=list)

    def recorded(self) -> dict[str, Recorded]:
        """Return the committed events by id, as they were recorded first.

        Of those whose commit nobody heard of, the ones that are there.
        """
        found: dict[str, Recorded] = {}
        for row in sorted(self.ledger.recorded, key=lambda row: row.began):
            is_there = row.ending is Ending.UNKNOWN and row.event_id in self.history.events
            if row.ending is Ending.COMMITTED or is_there:
                found.setdefault(row.event_id, row)
        return found

    def owed(self) -> Iterator[tuple[str, Recorded]]:
        """Yield each destination with each event it is to get."""
        for row in self.recorded().values():
            for destination, types in self.routes.items():
                if row.type in types:
                    yield destination, row


def name_of(sighting: Sighting) -> Name:
    """Return the attempt a request says it is."""
    return sighting.receiver, sighting.event_id, sighting.attempt


def said_of(name: Name) -> str:
    """Return the attempt in words."""
    return f"attempt {name[2]} of event {name[1]} for {name[0]}"
