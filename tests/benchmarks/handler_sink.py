"""What a handler costs the relay: the sink alone, and single against batch with one write per event.

    python -m tests.benchmarks.handler_sink [--events 200000] [--writes 5000] [--rounds 3]

The sink is measured without a database: the time of `send` for handlers that do nothing, per event, and at 100
attempts at once as the relay's slots make them. Then real handlers write a row per event into an embedded PostgreSQL:
one by one and in batches, with a transaction that settles and without. Rounds take turns; the best of each counts.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import time
from typing import TYPE_CHECKING

import psycopg
from psycopg_pool import AsyncConnectionPool

from outbox.migrate import migrate
from relays.context import RelayContext
from relays.sinks.handler import HandlerSink
from tests.claiming import claim, target
from tests.handler_deliveries import delivery, registry
from tests.queues import add_destination, record_many
from tests.servers import start_server

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from relays.deliveries import Delivery

AT_ONCE = 100
BATCH = 100
INSERT = "insert into effects values (%s)"
INSERT_MANY = "insert into effects select unnest(%s::uuid[])"


async def _nothing(_delivery) -> None:
    """Do nothing."""


def _nothing_blocking(_delivery) -> None:
    """Do nothing, in a thread."""


async def through(sink: HandlerSink, deliveries: Sequence[Delivery], at_once: int) -> float:
    """Send all through `at_once` workers, as the relay's slots do, and return the seconds it took."""
    waiting = iter(deliveries)

    async def work() -> None:
        for one in waiting:
            await sink.send(one)

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(at_once)))
    return time.perf_counter() - began


async def best(rounds: int, runs: dict[str, Callable[[], Awaitable[float]]]) -> dict[str, float]:
    """Return the best time of each run, measured in turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(await run())
    return {name: min(measured) for name, measured in times.items()}


async def measure_sink(events: int, rounds: int) -> None:
    """Print the microseconds of the sink alone."""
    handlers = {
        "async": (_nothing, {}, 1, events),
        f"async, {AT_ONCE} at once": (_nothing, {}, AT_ONCE, events),
        f"batch of {BATCH}, {AT_ONCE} at once": (_nothing, {"batch": BATCH}, AT_ONCE, events),
        f"thread, {AT_ONCE} at once": (_nothing_blocking, {}, AT_ONCE, events // 10),
    }
    one = delivery()

    def run(function, options, at_once: int, count: int):
        sink = HandlerSink(registry(("*", function, options)))
        # batches tell deliveries apart; single calls do not care
        deliveries = [delivery() for _ in range(count)] if options else list(itertools.repeat(one, count))
        return lambda: through(sink, deliveries, at_once)

    seconds = await best(rounds, {name: run(*how) for name, how in handlers.items()})
    for name, (*_, count) in handlers.items():
        print(f"sink alone, {name}: {seconds[name] / count * 1e6:.2f} us per event")


class Writers:
    """Handlers that write one row per event, in the four ways."""

    def __init__(self, pool) -> None:
        self._pool = pool

    async def single(self, one) -> None:
        async with self._pool.connection() as connection:
            await connection.execute(INSERT, [one.event_id])

    async def batch(self, deliveries) -> None:
        async with self._pool.connection() as connection:
            await connection.execute(INSERT_MANY, [[one.event_id for one in deliveries]])

    async def single_in_transaction(self, one, connection) -> None:
        await connection.execute(INSERT, [one.event_id])

    async def batch_in_transaction(self, deliveries, connection) -> None:
        await connection.execute(INSERT_MANY, [[one.event_id for one in deliveries]])


async def measure_writes(dsn: str, writes: int, rounds: int) -> None:
    """Print the events per second of handlers that write, and how much batches gain."""
    async with AsyncConnectionPool(dsn, kwargs={"autocommit": True}, min_size=10, open=False) as pool:
        writers = Writers(pool)
        ways = {
            "single": (writers.single, {}),
            "batch": (writers.batch, {"batch": BATCH}),
            "single, transactional": (writers.single_in_transaction, {"transactional": True}),
            "batch, transactional": (writers.batch_in_transaction, {"transactional": True, "batch": BATCH}),
        }
        seconds = await best(rounds, {name: _writing(dsn, writes, *how) for name, how in ways.items()})
    for name in ways:
        print(f"one row per event, {name}: {writes / seconds[name]:,.0f} events/s")
    print(f"batch / single: {seconds['single'] / seconds['batch']:.1f}")
    ratio = seconds["single, transactional"] / seconds["batch, transactional"]
    print(f"batch / single, transactional: {ratio:.1f}")


def _writing(dsn: str, writes: int, function, options):
    async def run() -> float:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("truncate outbox.deliveries, effects")
            record_many(connection, writes)
            runs = (await claim(dsn, target(connection, "work"), room=writes)).runs
        sink = HandlerSink(registry(("*", function, options)))
        await sink.open(RelayContext(dsn, relay_id=1, concurrency=AT_ONCE))
        seconds = await through(sink, [one for run in runs for one in run.deliveries], AT_ONCE)
        await sink.close()
        return seconds

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--writes", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    asyncio.run(measure_sink(options.events, options.rounds))
    with start_server("embedded", None) as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            migrate(connection)
            connection.execute("create table effects (event_id uuid)")
            add_destination(connection, "work", sink="handler")
        asyncio.run(measure_writes(dsn, options.writes, options.rounds))


if __name__ == "__main__":
    main()
