"""A destination as one relay serves it: its policy, how much is in flight, and how far its queue was walked."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from outbox.model import DestinationState
from relays.health import Breaker, ramp
from relays.overload import Overload
from relays.shares import TokenBucket, in_flight_share, rate_share

if TYPE_CHECKING:
    from outbox.model import Destination
    from outbox.policy import Policy
    from relays.sinks import Sink

__all__ = ["START", "Mark", "Target"]

OPEN_STATES = frozenset((DestinationState.ACTIVE, DestinationState.TRIPPED))
"""Tripped ones get a probe once their wait is over."""

LARGEST = 1_000_000
MARGIN = timedelta(milliseconds=30)
"""How far behind the last claimed row a claim starts again: commits are seen a little out of order."""


class Mark(NamedTuple):
    """A position in a destination's queue; claims look behind it. `due_at` None is before everything."""

    due_at: datetime | None
    id: int

    def __str__(self) -> str:
        """Return the timestamp as PostgreSQL reads it in an array."""
        return "-infinity" if self.due_at is None else self.due_at.isoformat()

    def is_before(self, other: Mark) -> bool:
        """Tell whether this position comes before `other` in the queue."""
        if self.due_at is None or other.due_at is None:
            return self.due_at is None and other.due_at is not None
        return tuple(self) < tuple(other)


START = Mark(None, 0)


@dataclass(slots=True, eq=False)
class Target:
    """One served destination. Owned by the relay's cycle; nothing else changes it.

    `low` is where claims start (promise flat): index entries of finished deliveries stay behind it, also when a
    pinned xmin horizon keeps them from being removed. `safe` is where sweeps start: nothing open lies before it.
    """

    destination: Destination
    policy: Policy
    sink: Sink
    lease_seconds: float
    in_flight: int = 0
    low: Mark = START
    furthest: Mark = START
    safe: Mark = START
    has_keys: bool = False
    may_have_due: bool = True
    next_due: float | None = None
    held_until: float = 0.0
    keys_going_on: set[str] = field(default_factory=set)
    breaker: Breaker = field(default_factory=Breaker)
    overload: Overload = field(default_factory=Overload)
    bucket: TokenBucket | None = None
    relays: int = 1
    rank: int = 0
    returned_at: float | None = None
    state_since: float = field(default_factory=time.monotonic)

    def room(self, free_slots: int, now: float, *, is_alone: bool) -> int:
        """Return how many deliveries may be claimed at `now` (monotonic seconds), of `free_slots` free in the relay.

        Unless it is alone, a destination gets half of the free slots, and the last one only while it has nothing
        in flight: a slow destination cannot occupy the relay or hide the others. What may be in flight and the rate
        are this relay's shares of the fleet's; a tripped destination gets one probe, one that came back a ramp, and an
        overloaded one less.
        """
        room = free_slots
        if not is_alone:
            room = (free_slots + 1) // 2
            if free_slots == 1 and self.in_flight:
                return 0
        limit = self._limit(now)
        if limit is not None:
            room = min(room, limit - self.in_flight)
        return max(min(room, self._rated(now)), 0)

    def _limit(self, now: float) -> int | None:
        """Return how much may be in flight here, or None for as much as there are slots."""
        if self.destination.state is DestinationState.TRIPPED:
            return in_flight_share(1, self.relays, self.rank)
        limit = self.policy.max_in_flight
        if (ramped := self._ramped(now)) is not None:
            limit = ramped if limit is None else min(limit, ramped)
        if limit is not None and self.relays > 1:
            limit = in_flight_share(limit, self.relays, self.rank)
        eased = self.overload.limit
        if eased is None:
            return limit
        return eased if limit is None else min(limit, eased)

    def _ramped(self, now: float) -> int | None:
        """Return how much the fleet may have in flight so soon after the return, or None once it is long ago."""
        if self.returned_at is None:
            return None
        ramped = ramp(LARGEST, now - self.returned_at)
        return ramped if ramped < LARGEST else None

    def _rated(self, now: float) -> int:
        """Return how many the rate allows now; wakes the relay when it allows the next."""
        if self.policy.rate_per_second is None:
            return LARGEST
        rate = rate_share(self.policy.rate_per_second, self.relays, self.rank)
        if rate <= 0:
            return 0
        self.bucket = TokenBucket.full(rate, now) if self.bucket is None else self.bucket.refilled(now, rate)
        if not self.bucket.available:
            self.due_in((1 - self.bucket.tokens) / rate)
        return self.bucket.available

    def enter(self, state: DestinationState) -> None:
        """Take the destination for `state` from now on."""
        self.become(replace(self.destination, state=state))

    def become(self, destination: Destination) -> None:
        """Take the destination as it is now; attempts begun in another state don't count for this one."""
        if destination.state is not self.destination.state:
            self.state_since = time.monotonic()
        self.destination = destination

    def took(self, count: int) -> None:
        """Count claimed deliveries against the rate."""
        if self.bucket is not None:
            self.bucket = self.bucket.taken(count)

    def claimed(self, last: Mark | None, *, is_exhausted: bool) -> None:
        """Move the low-water mark after a claim whose last row was at `last`.

        With more rows due (`not is_exhausted`) the next claim goes on exactly there; else it looks a little
        behind, where commits of the last moments may show up.
        """
        if last is not None and self.furthest.is_before(last):
            self.furthest = last
        self.may_have_due = not is_exhausted
        self.low = self.furthest
        if is_exhausted and self.furthest.due_at is not None:
            self.low = Mark(self.furthest.due_at - MARGIN, 0)

    @property
    def mark(self) -> Mark:
        """Where the next claim starts: the low-water mark, or the safe mark once that is further on."""
        return self.safe if self.low.is_before(self.safe) else self.low

    def due_in(self, seconds: float) -> None:
        """Remember that a delivery becomes due in `seconds`, so that the relay wakes for it."""
        due = time.monotonic() + max(seconds, 0.0)
        if self.next_due is None or due < self.next_due:
            self.next_due = due

    def wake(self, now: float) -> None:
        """Look again if something became due meanwhile; `now` is monotonic seconds."""
        if self.next_due is not None and self.next_due <= now:
            self.next_due = None
            self.may_have_due = True

    def is_open(self, now: float) -> bool:
        """Tell whether the destination may be claimed for at `now` (monotonic seconds)."""
        return self.destination.state in OPEN_STATES and self.held_until <= now

    def decided(self, mark: Mark) -> None:
        """Move the safe mark: nothing open lies before `mark`, and nothing can be recorded there any more."""
        if self.safe.is_before(mark):
            self.safe = mark
