"""Sets many deliveries going again, carefully: a few first, at a bounded rate, and not against a wall."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from outbox.errors import BulkStopped
from outbox.rows import named_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    import psycopg

__all__ = ["Bulk", "Taken"]

BATCH = 500
JUDGED = 1000
"""The failure share is that of so many set going last: what a run costs does not grow with its length."""

FEWEST_JUDGED = 10
WAIT_STEP_SECONDS = 0.1


class Taken(NamedTuple):
    """A delivery that a step has set going."""

    delivery_id: int
    event_id: str


@dataclass(slots=True)
class Bulk:
    """One bulk run. `step(batch)` sets up to so many deliveries going and returns them; none: it is done.

    `canary` deliveries go first and their outcomes are waited for, at most `canary_seconds`. `rate` is deliveries per
    second. Above the `failure_share` the run stops; what was done stays done, and a later run goes on with the rest.
    """

    connection: psycopg.Connection[Any]
    step: Callable[[int], list[Taken]]
    limit: int | None = None
    rate: float | None = None
    canary: int = 0
    canary_seconds: float = 60.0
    failure_share: float = 0.5
    _done: int = 0
    _last: deque[Taken] = field(default_factory=lambda: deque(maxlen=JUDGED))

    def run(self) -> Iterator[int]:
        """Yield how many deliveries are going after each batch.

        Raises:
            BulkStopped: too many failed again; says how many.
        """
        since = named_row(self.connection, "read_clock").now
        if self.canary and self._take(self.canary):
            yield self._done
            self._wait_for_canary(since)
        begun, before = time.monotonic(), self._done
        while self._take(BATCH):
            yield self._done
            self._judge(since)
            if self.rate is not None:  # batch by batch: after a stall nothing is caught up in a burst
                ahead = (self._done - before) / self.rate - (time.monotonic() - begun)
                time.sleep(max(ahead, 0.0))
            begun, before = time.monotonic(), self._done

    def _take(self, batch: int) -> bool:
        if self.limit is not None:
            batch = min(batch, self.limit - self._done)
        if self.rate is not None:
            batch = min(batch, max(1, round(self.rate)))
        taken = self.step(batch) if batch > 0 else []
        self._last.extend(taken)
        self._done += len(taken)
        if taken:
            self.connection.execute("select pg_notify('outbox', '')")  # sleeping relays need not wait for their poll
        return bool(taken)

    def _outcomes(self, since: datetime) -> Any:
        """Return what became of the last ones: delivered, failed, untried."""
        parameters = {
            "ids": [taken.delivery_id for taken in self._last],
            "event_ids": [taken.event_id for taken in self._last],
            "since": since,
        }
        return named_row(self.connection, "count_outcomes", parameters)

    def _wait_for_canary(self, since: datetime) -> None:
        deadline = time.monotonic() + self.canary_seconds
        total = len(self._last)
        while True:
            found = self._outcomes(since)
            if found.failed > self.failure_share * total:
                raise BulkStopped(
                    f"{found.failed} of the first {total} failed again; mend the cause, then run it again"
                )
            if found.delivered + found.failed == total:
                return
            if time.monotonic() > deadline:
                raise BulkStopped(
                    f"{found.untried} of the first {total} were not tried in time; is a relay running,"
                    " and the destination active? see `outbox status`"
                )
            time.sleep(WAIT_STEP_SECONDS)

    def _judge(self, since: datetime) -> None:
        found = self._outcomes(since)
        if found.failed >= FEWEST_JUDGED and found.failed > self.failure_share * (found.delivered + found.failed):
            raise BulkStopped(
                f"stopped after {self._done}: of the last {len(self._last)}, {found.failed} failed again and"
                f" {found.delivered} were delivered; mend the cause, then run it again"
            )
