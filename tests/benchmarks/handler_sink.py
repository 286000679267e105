"""What calling a handler costs, and what batches save.

    python -m tests.benchmarks.handler_sink [--events 100000] [--rounds 3] [--relay 10000]

First Python time per event in the sink alone, without claim and settle, for handlers that do nothing (budget: 25 µs
for a single one). With `--relay`, a real relay on an embedded PostgreSQL that drains so many events, once through
a handler for each event and once through one for up to 100, that do nothing or write a row per event.
"""

from __future__ import annotations

import argparse
import asyncio
import time

import psycopg

from outbox.migrate import migrate
from relays.results import Delivered
from relays.sinks.handler import HandlerSink
from tests.benchmarks import handler_app
from tests.handler_deliveries import delivery, registry
from tests.processes import relay_process
from tests.queues import add_destination
from tests.servers import start_server
from tests.waiting import wait_until

WORKERS = 100
DISTINCT = 1000
OPEN = "select exists (select from outbox.deliveries)"


async def bare(events: int) -> float:
    """Return seconds of awaiting the function itself."""
    ones = [delivery() for _ in range(DISTINCT)]
    function = handler_app.ignore
    began = time.process_time()
    for position in range(events):
        await function(ones[position % DISTINCT])
    return time.process_time() - began


async def through_sink(events: int, function, **options) -> float:
    """Return seconds of processor time of sending through the sink, by as many workers as a relay has slots."""
    sink = HandlerSink(registry(("*", function, options)))
    ones = [delivery() for _ in range(DISTINCT)]
    left = events

    async def work() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            assert isinstance(await sink.send(ones[left % DISTINCT]), Delivered)

    began = time.process_time()
    await asyncio.gather(*(work() for _ in range(WORKERS)))
    seconds = time.process_time() - began
    await sink.close()
    return seconds


def blocking(_delivery) -> None:
    """Do nothing, in a thread."""


def report_sink(events: int, rounds: int) -> None:
    """Print microseconds per event of each way to call, the best of the rounds."""
    runs = {
        "awaiting the function": lambda: bare(events),
        "async handler": lambda: through_sink(events, handler_app.ignore),
        "async handler, batch=100": lambda: through_sink(events, handler_app.ignore_many, batch=100),
        "blocking handler": lambda: through_sink(events // 10, blocking),
    }
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            share = events // 10 if name == "blocking handler" else events
            best[name] = min(best[name], asyncio.run(run()) / share)
    for name, seconds in best.items():
        print(f"{name:<26}{seconds * 1e6:>8.2f} µs per event")


def drained(server: str, event_type: str, events: int) -> float:
    """Return events per second of a relay that drains `events`: first attempt to last settle."""
    database = f"bench_{time.monotonic_ns()}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"create database {database}")
    dsn = psycopg.conninfo.make_conninfo(server, dbname=database)
    with psycopg.connect(dsn, autocommit=True) as connection:
        migrate(connection)
        connection.execute("create table written (event_id uuid primary key)")
        add_destination(connection, "work", sink="handler", event_types=(event_type,))
        connection.execute("select outbox.record_event(%s, '{}') from generate_series(1, %s)", [event_type, events])
        options = ("--app", "tests.benchmarks.handler_app", "--concurrency", "500", "--log-level", "warning")
        with relay_process(dsn, *options, environment={"BENCH_DSN": dsn}) as relay:
            wait_until(lambda: not connection.execute(OPEN).fetchone()[0], "all events settled", 600)
            relay.stop()
        delivered, written, seconds = connection.execute(
            "select count(*) filter (where outcome = 'delivered'), (select count(*) from written),"
            " extract(epoch from max(started_at + duration_ms * interval '1 ms') - min(started_at))::float8"
            " from outbox.attempts"
        ).fetchone()
    assert delivered == events
    assert written == (events if event_type.startswith("write") else 0)
    return delivered / seconds


def report_relay(events: int, rounds: int) -> None:
    """Print events per second through single and batch handlers, the best of the rounds, and their ratio."""
    with start_server("embedded", None) as server:
        for work in ("noop", "write"):
            best = {"single": 0.0, "batch": 0.0}
            for _ in range(rounds):
                for kind, rate in best.items():
                    best[kind] = max(rate, drained(server, f"{work}.{kind}", events))
            ratio = best["batch"] / best["single"]
            print(f"{work:<6} single {best['single']:>8,.0f}/s   batch {best['batch']:>8,.0f}/s   ratio {ratio:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--relay", type=int, default=0, metavar="EVENTS", help="also: a relay that drains so many")
    options = parser.parse_args()
    report_sink(options.events, options.rounds)
    if options.relay:
        report_relay(options.relay, options.rounds)


if __name__ == "__main__":
    main()
