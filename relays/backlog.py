"""What waits in the database, for the metrics: read when somebody scrapes, and no more often than that pays."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from outbox.errors import DatabaseUnreachable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from relays.sessions import Session
    from relays.targets import Target

__all__ = ["COUNT_LIMIT", "Backlog", "Waiting"]

log = logging.getLogger("relays.backlog")

COUNT_LIMIT = 10_000
"""Counting ends here: a scrape costs the same whatever the backlog."""

FRESH_SECONDS = 5.0
READ_SECONDS = 2.0


class Waiting(NamedTuple):
    """What waits for one destination. `due` and `dead` stop at COUNT_LIMIT; the age is None when nothing is due."""

    oldest_due_seconds: float | None
    due: int
    dead: int


class Backlog:
    """The last measurement, kept for some seconds, so that many scrapers cost no more than one."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._one_at_a_time = asyncio.Lock()
        self._read_at = -FRESH_SECONDS
        self._waiting: Mapping[str, Waiting] | None = None

    async def read(self, targets: Sequence[Target]) -> Mapping[str, Waiting] | None:
        """Return what waits, by name of destination, or None when the database does not say in time."""
        async with self._one_at_a_time:
            names = {target.destination.name for target in targets}
            is_other = self._waiting is None or names != self._waiting.keys()
            if is_other or time.monotonic() - self._read_at >= FRESH_SECONDS:
                self._waiting = await self._measure(targets)
                self._read_at = time.monotonic()
            return self._waiting

    async def _measure(self, targets: Sequence[Target]) -> Mapping[str, Waiting] | None:
        names = {target.destination.id: target.destination.name for target in targets}
        parameters = {
            "destination_ids": list(names),
            "safe_due_ats": [str(target.safe) for target in targets],
            "safe_ids": [target.safe.id for target in targets],
            "count_limit": COUNT_LIMIT,
        }
        try:
            async with asyncio.timeout(READ_SECONDS):
                rows = await self._session.named_rows("measure_backlog", parameters)
        except (psycopg.Error, DatabaseUnreachable, OSError) as error:  # TimeoutError is an OSError
            log.warning("backlog not measured: %s", str(error).strip() or type(error).__name__)
            await self._session.reset()
            return None
        return {names[row.destination_id]: Waiting(row.oldest_due_seconds, row.due, row.dead) for row in rows}
