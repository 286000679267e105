"""Looks behind the low-water marks: late commits, lapsed leases, suspects (promises flat, at-least-once).

Claims start at a mark just behind the last row claimed. What becomes claimable behind it is found here, from the
*safe* mark on: everything recorded before a time t is decided once all transactions that held a row-exclusive lock on
outbox.deliveries at t are gone, and the mark never passes an open row. t is read before the locks; read after them, a
recorder in between would be missed. Once a minute a sweep starts at the very beginning, in case the server's clock
stepped back.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from relays.arrays import numbers, texts
from relays.decisions import INTERRUPTION_BACKOFF_SECONDS, INTERRUPTIONS_UNTIL_DEAD
from relays.targets import START, Mark

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from relays.clock import ServerClock
    from relays.sessions import Session
    from relays.targets import Target

__all__ = ["Sweeps"]

log = logging.getLogger("relays.sweeps")

SHARE = 0.1
"""Of a relay's time, at most."""

MOST_TARGETS = 500
SHORTEST_INTERVAL_SECONDS = 0.1
COMPLETE_INTERVAL_SECONDS = 60.0
RECOVER_LIMIT = 1000


class Sweeps:
    """Sweeps of the served destinations in turn, a bounded number at a time."""

    def __init__(self, session: Session, clock: ServerClock, poll_seconds: float) -> None:
        self._session = session
        self._clock = clock
        self._poll_seconds = poll_seconds
        self._decided_at: datetime | None = None
        self._undecided: tuple[datetime, frozenset[str]] | None = None
        self._queue: list[Target] = []
        self._complete_at = time.monotonic() + COMPLETE_INTERVAL_SECONDS
        self.next_at = 0.0
        self.swept: Sequence[Target] = ()

    async def sweep(self, targets: Sequence[Target], *, is_busy: bool) -> list[Target]:
        """Move the safe marks of some targets and recover lapsed leases; return those with suspects to claim.

        `is_busy` asks for the next sweep soon, within the bounded share; an idle relay sweeps when it polls.
        Afterwards the swept targets may have due rows behind their low-water mark: claim from `target.safe`.
        """
        begun = time.monotonic()
        await self._decide()
        swept = self._next_targets(targets)
        suspected = await self._look(swept) if swept else []
        now = time.monotonic()
        pause = SHORTEST_INTERVAL_SECONDS if is_busy or self._queue else self._poll_seconds
        self.next_at = now + max((now - begun) / SHARE, pause)
        self.swept = swept
        return suspected

    @property
    def is_round_done(self) -> bool:
        """Whether the last sweep came to the end of the destinations."""
        return not self._queue

    def _next_targets(self, targets: Sequence[Target]) -> list[Target]:
        if not self._queue:
            self._queue = list(targets)
            if time.monotonic() >= self._complete_at:
                self._complete_at = time.monotonic() + COMPLETE_INTERVAL_SECONDS
                for target in targets:
                    target.safe = START
        swept, self._queue = self._queue[:MOST_TARGETS], self._queue[MOST_TARGETS:]
        return swept

    async def _decide(self) -> None:
        """Find the latest time before which every recorder has ended."""
        [(now,)] = await self._session.rows("read_clock")
        self._clock.set(now)
        [(recorders,)] = await self._session.rows("list_recorders")
        current = frozenset(recorders)
        if self._undecided is not None:
            since, before = self._undecided
            self._undecided = (since, before & current)
            if not self._undecided[1]:
                self._decided_at, self._undecided = since, None
        if self._undecided is None:
            if current:
                self._undecided = (now, current)
            else:
                self._decided_at = now

    async def _look(self, targets: Sequence[Target]) -> list[Target]:
        recovered = await self._session.named_rows(
            "recover_lapsed",
            {
                "dead_after": INTERRUPTIONS_UNTIL_DEAD,
                "backoff_seconds": INTERRUPTION_BACKOFF_SECONDS,
                "recover_limit": RECOVER_LIMIT,
                **_asked(targets),
            },
        )
        for row in recovered:
            if row.suspected or row.died:
                log.warning("recovered %d lapsed leases, %d of them dead", row.suspected + row.died, row.died)
        by_id = {target.destination.id: target for target in targets}
        suspected = []
        for row in await self._session.named_rows("find_marks", _asked(targets)):
            target = by_id[row.destination_id]
            self._move(target, row)
            if row.has_suspects:
                suspected.append(target)
        return suspected

    def _move(self, target: Target, row: Any) -> None:
        if row.has_keys:
            target.has_keys = True
        if row.next_due_seconds is not None:
            target.due_in(row.next_due_seconds)
        if self._decided_at is None:
            return
        mark = Mark(self._decided_at, 0)
        if row.first_due_at is not None:
            mark = min(mark, Mark(row.first_due_at, row.first_id - 1))
        target.decided(mark)


def _asked(targets: Sequence[Target]) -> dict[str, Any]:
    return {
        "destination_ids": numbers(target.destination.id for target in targets),
        "safe_due_ats": texts(str(target.safe) for target in targets),
        "safe_ids": numbers(target.safe.id for target in targets),
        "high_due_ats": texts(str(target.furthest) if target.may_have_due else "infinity" for target in targets),
    }
