"""What recording costs, as ratios of medians within one run.

    python -m tests.benchmarks.recording --dsn postgresql://… [--rounds 7] [--seconds 5]

Makes a database of its own on the server of the DSN and drops it at the end. Rounds of the compared variants
alternate, so that a slow minute of the machine hits all of them. Prints a table; exit code 1 if a budget is missed.

| measured | against | budget |
| --- | --- | --- |
| record_event, one destination, one event per transaction | the two plain inserts it replaces | at most 1.3 x |
| record_event with a key | without | at least 0.95 of the rate |
| record_events of 1,000 | | at least 25,000 events/s |
| 64 writers, an idle relay beside them | the same with the doorbell off | at least 0.9 of the commits |
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import statistics
import sys
import threading
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

import outbox
from outbox.encoding import encode_payload
from outbox.migrate import migrate
from tests.processes import relay_process
from tests.queues import add_destination

if TYPE_CHECKING:
    from collections.abc import Callable

PAYLOAD = {
    "order": 123456,
    "lines": [{"sku": f"SKU-{number}", "qty": number, "price": 9.99} for number in range(6)],
    "note": "x" * 200,
}
PLAIN_TABLES = """
    create schema plain;
    create table plain.orders (id bigint generated always as identity primary key, total numeric);
    create table plain.events (
        id uuid primary key default gen_random_uuid(), type text not null, payload jsonb not null,
        headers jsonb not null default '{}', key text, recorded_at timestamptz not null default now());
    create table plain.deliveries (
        id bigint generated always as identity primary key, event_id uuid not null, destination_id integer not null,
        key text, due_at timestamptz not null default now(), attempt integer not null default 0, lease_token bigint,
        leased_until timestamptz, relay_id bigint, recorded_at timestamptz not null default now());
    create index on plain.deliveries (destination_id, due_at, id);
    create index on plain.deliveries (event_id);
    create index on plain.deliveries (destination_id, key, id) where key is not null;
"""
BATCH = 1000
WRITERS = 64
WRITER_PROCESSES = 4


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    name: str
    value: str
    budget: str = ""
    is_met: bool = True


@contextmanager
def scratch_database(dsn: str):
    """Return the DSN of a migrated database with one destination and the plain tables to compare with."""
    name = f"outbox_recording_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        try:
            scratch = make_conninfo(dsn, dbname=name)
            with psycopg.connect(scratch, autocommit=True) as connection:
                migrate(connection)
                connection.execute(PLAIN_TABLES)
                add_destination(connection, event_types=["order.*"], sink="handler")
            yield scratch
        finally:
            admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def alternate(variants: dict[str, Callable[[], float]], rounds: int, calls: int = 1) -> dict[str, float]:
    """Return, for each variant, the median over `rounds` of the median of `calls`, after one round to warm up.

    Single calls alternate, so that whatever else the machine does hits all variants alike.
    """
    medians: dict[str, list[float]] = {name: [] for name in variants}
    for round_number in range(rounds + 1):
        samples: dict[str, list[float]] = {name: [] for name in variants}
        for _ in range(calls):
            for name, run in variants.items():
                samples[name].append(run())
        if round_number:
            for name, values in samples.items():
                medians[name].append(statistics.median(values))
    return {name: statistics.median(values) for name, values in medians.items()}


def one_event_per_transaction(dsn: str, rounds: int) -> list[Line]:
    payload = encode_payload(PAYLOAD)
    numbers = itertools.count()
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=1) as connection:

        def timed(record: Callable[[], object]) -> Callable[[], float]:
            def run() -> float:
                start = time.perf_counter()
                connection.execute("begin")
                connection.execute("insert into plain.orders (total) values (1.10)")
                record()
                connection.execute("commit")
                return (time.perf_counter() - start) * 1e6

            return run

        def nothing() -> None:
            """Only the business row: what is subtracted from all others."""

        def two_inserts() -> None:
            (event_id,) = connection.execute(
                "insert into plain.events (type, payload) values ('order.paid', %s::jsonb) returning id", [payload]
            ).fetchone()
            connection.execute(
                "insert into plain.deliveries (event_id, destination_id) values (%s, 1) returning id", [event_id]
            ).fetchone()

        call = "select outbox.record_event('order.paid', %s::jsonb, %s)"

        def record_event() -> None:
            connection.execute(call, [payload, None]).fetchone()

        def with_key() -> None:
            connection.execute(call, [payload, f"k{next(numbers) % 1000}"]).fetchone()

        def from_python() -> None:
            outbox.record_event(connection, "order.paid", PAYLOAD)

        variants = (nothing, two_inserts, record_event, with_key, from_python)
        cost = alternate({variant.__name__: timed(variant) for variant in variants}, rounds, calls=200)
    business = cost.pop("nothing")
    net = {name: value - business for name, value in cost.items()}
    ratio = net["record_event"] / net["two_inserts"]
    keyed = cost["record_event"] / cost["with_key"]
    return [
        Line("business row alone", f"{business:.0f} us per transaction"),
        *(Line(f"+ {name}", f"{cost[name]:.0f} us, of which {net[name]:.0f}") for name in cost),
        Line("record_event / two plain inserts", f"{ratio:.2f}", "at most 1.3", ratio <= 1.3),
        Line("keyed / unkeyed, transactions/s", f"{keyed:.2f}", "at least 0.95", keyed >= 0.95),
    ]


def server_cost(dsn: str, rounds: int) -> list[Line]:
    """Time both inside the server, without round trips and commits: what the client hides."""
    body = {
        "two plain inserts": "insert into plain.events (type, payload) values ('order.paid', p) returning id into e;"
        " insert into plain.deliveries (event_id, destination_id) values (e, 1);",
        "record_event": "e := outbox.record_event('order.paid', p);",
        "record_event with key": "e := outbox.record_event('order.paid', p, 'k' || n);",
        "record_event with idempotency key": "e := outbox.record_event('order.paid', p, idempotency_key =>"
        " clock_timestamp()::text || n);",
    }
    with psycopg.connect(dsn, autocommit=True) as connection:

        def timed(statements: str) -> Callable[[], float]:
            block = sql.SQL(
                "do $$ declare p jsonb := {}; e uuid; begin for n in 1..200 loop {} end loop; end $$"
            ).format(sql.Literal(encode_payload(PAYLOAD)), sql.SQL(statements))

            def run() -> float:
                start = time.perf_counter()
                connection.execute(block)
                return (time.perf_counter() - start) / 200 * 1e6

            return run

        cost = alternate({name: timed(statements) for name, statements in body.items()}, rounds, calls=10)
    return [Line(f"in the server: {name}", f"{value:.1f} us") for name, value in cost.items()]


def batches(dsn: str, rounds: int) -> list[Line]:
    kinds: dict[str, dict[str, str]] = {"": {}, ", keyed": {"key": "k"}, ", idempotent": {"idempotency_key": "i"}}
    with psycopg.connect(dsn) as connection:

        def timed(arguments: dict[str, str]) -> Callable[[], float]:
            def run() -> float:
                events = [
                    outbox.Event(
                        "order.paid", PAYLOAD, **{name: f"{value}{uuid.uuid4()}" for name, value in arguments.items()}
                    )
                    for _ in range(BATCH)
                ]
                start = time.perf_counter()
                outbox.record_events(connection, events)
                connection.commit()
                return BATCH / (time.perf_counter() - start)

            return run

        rates = alternate({name: timed(arguments) for name, arguments in kinds.items()}, rounds, calls=5)
    return [
        Line(
            f"record_events of 1,000 from Python{name}",
            f"{rate:,.0f} events/s",
            "" if name else "at least 25,000",
            bool(name) or rate >= 25_000,
        )
        for name, rate in rates.items()
    ]


def write(dsn: str, doorbell: str, seconds: float, count) -> None:
    """Commit one row and one event each, on several connections, until the time is over."""
    payload = encode_payload(PAYLOAD)

    def writer() -> None:
        with psycopg.connect(dsn, autocommit=True, prepare_threshold=1) as connection:
            connection.execute("select set_config('outbox.doorbell', %s, false)", [doorbell])
            end, done = time.monotonic() + seconds, 0
            while time.monotonic() < end:
                with connection.pipeline():
                    connection.execute("begin")
                    connection.execute("insert into plain.orders (total) values (1.10)")
                    connection.execute("select outbox.record_event('order.paid', %s::jsonb)", [payload])
                    connection.execute("commit")
                done += 1
            with count.get_lock():
                count.value += done

    threads = [threading.Thread(target=writer) for _ in range(WRITERS // WRITER_PROCESSES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def commits_per_second(dsn: str, doorbell: str, seconds: float) -> float:
    count = multiprocessing.Value("q", 0)
    processes = [
        multiprocessing.Process(target=write, args=(dsn, doorbell, seconds, count)) for _ in range(WRITER_PROCESSES)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return count.value / seconds


@contextmanager
def relay(dsn: str):
    """A real relay with a handler that does nothing."""
    with relay_process(dsn, "--app", "tests.benchmarks.noop_app") as process:
        process.wait_for("doorbell on")
        yield


@contextmanager
def sleeper(dsn: str):
    """A session that listens and never stops sleeping: the worst a relay could do."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("listen outbox")
        connection.execute("select pg_advisory_lock_shared(1330205760, 0)")
        yield


def doorbell(dsn: str, rounds: int, seconds: float) -> list[Line]:
    lines = []
    for name, beside, budget in (
        ("a relay that serves them", relay, 0.9),
        ("a relay that never wakes up", sleeper, None),
    ):
        with beside(dsn):
            rates = alternate(
                {
                    setting: lambda setting=setting: commits_per_second(dsn, setting, seconds)
                    for setting in ("on", "off")
                },
                rounds,
            )
        ratio = rates["on"] / rates["off"]
        lines.append(
            Line(
                f"64 writers beside {name}: with / without doorbell",
                f"{rates['on']:,.0f} / {rates['off']:,.0f} commits/s = {ratio:.2f}",
                f"at least {budget}" if budget else "",
                budget is None or ratio >= budget,
            )
        )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dsn", required=True, help="a superuser's, on a server to measure")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each round with 64 writers")
    parser.add_argument("--only", choices=["single", "server", "batch", "doorbell"])
    options = parser.parse_args()
    parts = {
        "single": lambda dsn: one_event_per_transaction(dsn, options.rounds),
        "server": lambda dsn: server_cost(dsn, options.rounds),
        "batch": lambda dsn: batches(dsn, options.rounds),
        "doorbell": lambda dsn: doorbell(dsn, max(5, options.rounds), options.seconds),
    }
    is_met = True
    for name, part in parts.items():
        if options.only in {None, name}:
            with scratch_database(options.dsn) as dsn:
                for line in part(dsn):
                    is_met &= line.is_met
                    print(
                        f"{line.name:62} {line.value:40} {line.budget:16} {'' if line.is_met else 'MISSED'}", flush=True
                    )
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
