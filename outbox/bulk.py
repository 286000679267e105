"""Sets many deliveries going again, carefully: a few first, at a bounded rate, and not against a wall."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from outbox.errors import BulkStopped
from outbox.queries import query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    import psycopg

__all__ = ["Bulk"]

BATCH = 500
FEWEST_JUDGED = 10
WAIT_STEP_SECONDS = 0.1


@dataclass(slots=True)
class Bulk:
    """One bulk run. `step(batch)` sets up to so many deliveries going and returns their ids; none: it is done.

    `canary` deliveries go first and their outcomes are waited for, at most `canary_seconds`. `rate` is deliveries per
    second. Above the `failure_share` the run stops; what was done stays done, and a later run goes on with the rest.
    """

    connection: psycopg.Connection[Any]
    step: Callable[[int], list[int]]
    limit: int | None = None
    rate: float | None = None
    canary: int = 0
    canary_seconds: float = 60.0
    failure_share: float = 0.5
    _ids: list[int] = field(default_factory=list)

    def run(self) -> Iterator[int]:
        """Yield how many deliveries are going after each batch.

        Raises:
            BulkStopped: too many failed again; says how many.
        """
        since = self._now()
        if self.canary and self._take(self.canary):
            yield len(self._ids)
            self._wait_for_canary(since)
        started = time.monotonic()
        done_before = len(self._ids)
        while self._take(BATCH):
            yield len(self._ids)
            self._judge(since)
            if self.rate is not None:
                ahead = (len(self._ids) - done_before) / self.rate - (time.monotonic() - started)
                time.sleep(max(ahead, 0.0))

    def _take(self, batch: int) -> bool:
        if self.limit is not None:
            batch = min(batch, self.limit - len(self._ids))
        if self.rate is not None:
            batch = min(batch, max(1, round(self.rate)))
        ids = self.step(batch) if batch > 0 else []
        self._ids += ids
        return bool(ids)

    def _now(self) -> datetime:
        row = self.connection.execute("select clock_timestamp()").fetchone()
        assert row is not None  # noqa: S101 - a select without from has one row
        moment: datetime = row[0]
        return moment

    def _outcomes(self, since: datetime) -> tuple[int, int, int]:
        parameters = {"ids": self._ids, "total": len(self._ids), "since": since}
        row = self.connection.execute(query("count_outcomes"), parameters).fetchone()
        delivered, failed, untried = row if row is not None else (0, 0, 0)
        return delivered, failed, untried

    def _wait_for_canary(self, since: datetime) -> None:
        deadline = time.monotonic() + self.canary_seconds
        while True:
            delivered, failed, untried = self._outcomes(since)
            if failed > self.failure_share * len(self._ids):
                raise BulkStopped(
                    f"{failed} of the first {len(self._ids)} failed again; mend the cause, then run it again"
                )
            if delivered + failed == len(self._ids):
                return
            if time.monotonic() > deadline:
                raise BulkStopped(
                    f"{untried} of the first {len(self._ids)} were not tried in time; is a relay running?"
                )
            time.sleep(WAIT_STEP_SECONDS)

    def _judge(self, since: datetime) -> None:
        delivered, failed, _ = self._outcomes(since)
        if failed >= FEWEST_JUDGED and failed > self.failure_share * (delivered + failed):
            raise BulkStopped(
                f"stopped after {len(self._ids)}: {failed} failed again, {delivered} were delivered;"
                " mend the cause, then run it again"
            )
