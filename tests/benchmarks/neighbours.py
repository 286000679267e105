"""Many destinations at one relay of ours: 10,000 of them, and one that answers slowly with a long queue."""

from __future__ import annotations

import tempfile
from pathlib import Path

import psycopg

from tests.benchmarks.contestants import OURS
from tests.benchmarks.drain import Arena, Prepared, arena, stop, wait_for_end
from tests.benchmarks.memory import ADD_MANY, peak_mib
from tests.benchmarks.timing import latencies, percentile

NOISY = ["the other destination", "events", "p50 ms", "p99 ms", "max ms"]
MANY = ["destinations", "deliveries", "deliveries/s", "relay MiB", "idle: p50 ms", "p99 ms"]

ADD_SLOW = "insert into outbox.destinations (name, sink, event_types) values ('slow', 'handler', '{slow}')"
RECORD = "select outbox.record_event(%s, jsonb_build_object('i', n)) from generate_series(1, %s) n"
OPEN = "select not exists (select from outbox.deliveries)"


def noisy(waiting: int = 100_000, count: int = 300) -> list[list[str]]:
    """Return latencies of one destination without and with another that takes 10 s for each of `waiting` events."""

    def slow(dsn: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(ADD_SLOW)
            for _ in range(waiting // 1000):
                connection.execute(RECORD, ["slow", 1000])

    with arena() as own:
        quiet = latencies(own, OURS, count)
        loud = latencies(own, OURS, count, burden=slow)
    names = ("none", f"answers in 10 s, {waiting:,} waiting")
    return [_noisy_row(name, waits) for name, waits in zip(names, (quiet, loud), strict=True)]


def _noisy_row(name: str, waits: list[float]) -> list[str]:
    return [name, str(len(waits)), *(f"{percentile(waits, share):.2f}" for share in (0.5, 0.99, 1.0))]


def many(destinations: int = 10_000, events: int = 5) -> list[list[str]]:
    """Return the drain of as many deliveries over one destination and over many, and latency beside idle ones."""
    deliveries = destinations * events
    with arena() as own:
        return [_many_row(own, 1, deliveries), _many_row(own, destinations, events)]


def _many_row(own: Arena, destinations: int, events: int) -> list[str]:
    def add(dsn: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(ADD_MANY, ["many", destinations])

    prepared = own.prepare(OURS)
    add(prepared.dsn)
    seconds, mib = _drain(prepared, events)
    waits = latencies(own, OURS, 200, burden=add)
    return [
        f"{destinations:,}",
        f"{destinations * events:,}",
        f"{destinations * events / seconds:,.0f}",
        f"{mib:.0f}",
        f"{percentile(waits, 0.5):.2f}",
        f"{percentile(waits, 0.99):.2f}",
    ]


def _drain(prepared: Prepared, events: int) -> tuple[float, float]:
    """Return the seconds from the first handler to the end, and the relay's peak memory in MiB."""
    with tempfile.TemporaryDirectory() as folder, psycopg.connect(prepared.dsn, autocommit=True) as connection:
        first = Path(folder) / "first"
        connection.execute(RECORD, ["many", events])
        connection.execute("vacuum analyze")
        worker = prepared.start_worker(BENCH_FIRST=str(first))
        try:
            ended = wait_for_end(connection, OPEN)
            mib = peak_mib(worker.pid)
        finally:
            stop([worker])
        if ended is None:
            raise TimeoutError("the relay did not finish in time")
        return ended - float(first.read_text()), mib
