"""Upkeep beside the work, by one relay of the fleet: partitions, retention, destinations that fail for days."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING

import psycopg

from outbox.database import aconnect
from outbox.errors import DatabaseUnreachable
from outbox.prune import DEFAULT_KEEP, aprune
from relays.failing import Failing
from relays.queries import query

if TYPE_CHECKING:
    from datetime import timedelta

__all__ = ["Janitor"]

log = logging.getLogger("relays.janitor")

INTERVAL_SECONDS = 600.0
LEASE_SECONDS = 3 * INTERVAL_SECONDS


class Janitor:
    """Does the upkeep every ten minutes, if this relay gets or keeps the lease of it."""

    def __init__(self, dsn: str, relay_id: int, keep: timedelta = DEFAULT_KEEP) -> None:
        self._dsn = dsn
        self._relay_id = relay_id
        self._keep = keep
        self._failing = Failing()

    async def run(self) -> None:
        """Work for ever; what goes wrong is logged and tried again at the next round."""
        while True:
            # spread, so that a fleet that started together does not ask together
            await asyncio.sleep(random.uniform(0.05, 0.1) * INTERVAL_SECONDS)  # noqa: S311 - spread, not a secret
            try:
                await self.round()
            except (psycopg.Error, DatabaseUnreachable, OSError) as error:
                log.warning("upkeep failed, trying again later: %s", str(error).strip() or type(error).__name__)
            await asyncio.sleep(INTERVAL_SECONDS)

    async def round(self) -> bool:
        """Do the upkeep once; return False when another relay has the lease.

        Raises:
            TimeoutError: it took longer than the lease, as on a connection that has gone silent.
        """
        connection = await aconnect(self._dsn, application_name="outbox-relay janitor", prepare_threshold=None)
        async with asyncio.timeout(LEASE_SECONDS), connection:
            parameters = {"relay_id": self._relay_id, "seconds": LEASE_SECONDS}
            taken = await (await connection.execute(query("take_janitor_lease"), parameters)).fetchone()
            if taken is None:
                return False
            await self._failing.disable(connection)
            pruned = await aprune(connection, self._keep)
            if pruned.removed_rows or pruned.purged or pruned.created:
                log.info(
                    "upkeep: %d partitions made, %d emptied, %d rows removed",
                    pruned.created,
                    len(pruned.purged),
                    pruned.removed_rows,
                )
            return True
