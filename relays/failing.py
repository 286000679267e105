"""Disables destinations whose every attempt fails for days, too few of them to trip one (promise held-not-lost).

A part of the upkeep, so one relay of the fleet does it. What happened is read from the database, not remembered.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from psycopg.rows import namedtuple_row

from outbox.durations import format_duration
from relays.health import DEFAULT_LIMITS, after_failing
from relays.queries import query

if TYPE_CHECKING:
    import psycopg

    from relays.results import Hold

__all__ = ["Failing"]

log = logging.getLogger("relays.failing")

LOOKED_BACK_SECONDS = DEFAULT_LIMITS.disable_after + 2 * 86400.0
"""Longer than it takes to disable: rare events leave gaps, and the first failure must still be seen."""


class Failing:
    """Looks at the destinations that deliver nothing; warns once of each before it is disabled."""

    def __init__(self) -> None:
        self._warned: set[int] = set()

    async def disable(self, connection: psycopg.AsyncConnection[Any]) -> list[str]:
        """Disable what has been failing for too long; return the names. `connection` is in autocommit."""
        asked = {"looked_back_seconds": LOOKED_BACK_SECONDS, "failing_seconds": DEFAULT_LIMITS.warn_after}
        found = await _rows(connection, "list_failing", asked)
        self._warned &= {row.id for row in found}
        disabled = []
        for row in found:
            hold = await _hold(connection, row)
            if hold is not None:
                await _apply(connection, row, hold)
                disabled.append(row.name)
            elif row.id not in self._warned:
                self._warned.add(row.id)
                _warn(row)
        return disabled


def _warn(row: Any) -> None:
    log.warning(
        "destination %s has delivered nothing for %s, failures: %d; it is disabled after %s",
        row.name,
        format_duration(row.failing_seconds),
        row.failures,
        format_duration(DEFAULT_LIMITS.disable_after),
    )


async def _hold(connection: psycopg.AsyncConnection[Any], row: Any) -> Hold | None:
    """Return what follows; history is only read where the counts alone would disable it."""
    if after_failing(row.failing_seconds, row.failures, DEFAULT_LIMITS.least_events) is None:
        return None
    return after_failing(row.failing_seconds, row.failures, await _failed_events(connection, row.id))


async def _failed_events(connection: psycopg.AsyncConnection[Any], destination_id: int) -> int:
    asked = {"destination_id": destination_id, "looked_back_seconds": LOOKED_BACK_SECONDS}
    [row] = await _rows(connection, "count_failed_events", asked)
    return int(row.failed_events)


async def _apply(connection: psycopg.AsyncConnection[Any], row: Any, hold: Hold) -> None:
    log.warning("destination %s is %s: %s", row.name, hold.state, hold.reason)
    await connection.execute(query("hold_destination"), hold.parameters(row.id))


async def _rows(connection: psycopg.AsyncConnection[Any], name: str, parameters: dict[str, Any]) -> list[Any]:
    async with connection.cursor(row_factory=namedtuple_row) as cursor:
        await cursor.execute(query(name), parameters)
        return await cursor.fetchall()
