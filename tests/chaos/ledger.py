"""What happened, written down outside the system under test: by the producers and by the receivers."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = ["Ending", "Ledger", "Recorded", "Sighting"]


class Ending(StrEnum):
    """How a producer's transaction ended."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    UNKNOWN = "unknown"  # the connection broke while the server committed


@dataclass(frozen=True)
class Recorded:
    """One call that recorded, with its transaction's ending. Times are monotonic seconds.

    `position` counts the calls of the transaction: of one key, they are ordered by it, and transactions by their times.
    """

    event_id: str
    type: str
    payload: Any
    ending: Ending
    began: float
    ended: float
    position: int = 0
    key: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True)
class Sighting:
    """One request as a receiver saw it, and what the receiver did. Times are monotonic seconds.

    `took` says that the receiver did what the event asks for, whatever it answered; `accepted_at` is when it began to
    answer with a 2xx status, None if it never did.
    """

    receiver: str
    event_id: str
    attempt: int
    body: bytes
    identity: tuple[tuple[str, str], ...]
    is_signed: bool
    at: float
    did: str
    took: bool
    accepted_at: float | None


@dataclass
class Ledger:
    """All of it; written from several threads."""

    recorded: list[Recorded] = field(default_factory=list)
    sightings: list[Sighting] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add_recorded(self, rows: list[Recorded]) -> None:
        with self._lock:
            self.recorded.extend(rows)

    def add_sighting(self, sighting: Sighting) -> None:
        with self._lock:
            self.sightings.append(sighting)

    def ids(self, *endings: Ending) -> set[str]:
        """Return the ids recorded in transactions that ended so."""
        return {row.event_id for row in self.recorded if row.ending in endings}

    def seen(self) -> dict[tuple[str, str], list[Sighting]]:
        """Return the sightings by (receiver, event id), in the order of their times."""
        found: dict[tuple[str, str], list[Sighting]] = defaultdict(list)
        for sighting in sorted(self.sightings, key=lambda sighting: sighting.at):
            found[sighting.receiver, sighting.event_id].append(sighting)
        return found
