"""Handlers for `tests.benchmarks.handler_sink`: one by one and in batches, doing nothing or writing a row per event."""

from __future__ import annotations

from psycopg_pool import AsyncConnectionPool

import relays
from outbox.settings import environment_value

_pools: list[AsyncConnectionPool] = []


async def _pool() -> AsyncConnectionPool:
    """Return the one pool, opened in the relay's event loop."""
    if not _pools:
        _pools.append(AsyncConnectionPool(environment_value("BENCH_DSN") or "", min_size=4, max_size=4, open=False))
        await _pools[0].open()
    return _pools[0]


@relays.handler("noop.single")
async def ignore(delivery) -> None:
    """Do nothing."""


@relays.handler("noop.batch", batch=100)
async def ignore_many(deliveries) -> None:
    """Do nothing, for many at once."""


@relays.handler("write.single")
async def write(delivery) -> None:
    """Write a row."""
    async with (await _pool()).connection() as connection:
        await connection.execute("insert into written values (%s)", [delivery.event_id])


@relays.handler("write.batch", batch=100)
async def write_many(deliveries) -> None:
    """Write the rows of many events in one statement."""
    async with (await _pool()).connection() as connection:
        ids = [delivery.event_id for delivery in deliveries]
        await connection.execute("insert into written select unnest(%s::uuid[])", [ids])
