"""A relay of ours inside the benchmark's process, with its claims timed: pinned horizon, large backlog."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg

import relays
from outbox.embedded import EmbeddedServer
from outbox.migrate import migrate
from relays.relay import Relay
from relays.settings import RelaySettings
from tests.benchmarks.drain import SERVER
from tests.benchmarks.timing import percentile
from tests.queues import add_destination


@relays.handler("bench")
async def bench(delivery):
    """Do nothing."""


class Claims:
    """Observes claims: (monotonic time, seconds, deliveries) of each."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, float, int]] = []
        self.first = asyncio.Event()

    def claimed(self, runs, seconds) -> None:
        self.seen.append((time.monotonic(), seconds, sum(len(run.deliveries) for run in runs)))
        self.first.set()

    def settled(self, batch, seconds) -> None:
        """Nothing to note."""

    def lost(self, batch) -> None:
        """Nothing to note."""

    def between(self, begun: float, ended: float) -> list[tuple[float, float, int]]:
        return [claim for claim in self.seen if begun <= claim[0] < ended]


@asynccontextmanager
async def relay(dsn: str, concurrency: int = 1000):
    """Run a relay; what it claimed is in the observer."""
    claims = Claims()
    running = Relay(RelaySettings(dsn=dsn, concurrency=concurrency), observer=claims)
    task = asyncio.create_task(running.run())
    try:
        await claims.first.wait()
        yield claims
    finally:
        running.stop()
        await task


def fresh_server(folder: str) -> EmbeddedServer:
    Path(folder).chmod(0o755)
    return EmbeddedServer(Path(folder) / "pg", settings=SERVER)


def prepare(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        migrate(connection)
        add_destination(connection, "bench", sink="handler", event_types=["bench"])


PRODUCER = """
import sys, time, psycopg
dsn, rate, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
with psycopg.connect(dsn, autocommit=True) as connection:
    begun = time.monotonic(); made = 0
    while time.monotonic() - begun < seconds:
        due = int((time.monotonic() - begun) * rate)
        if due - made < 20:
            time.sleep(0.002)
            continue
        connection.execute("select outbox.record_events(jsonb_agg(jsonb_build_object('type', 'bench', 'payload',"
            " jsonb_build_object('i', i)))) from generate_series(1, %s) i", [min(due - made, 200)])
        made += min(due - made, 200)
"""


async def _pinned(dsn: str, rate: int, seconds: int) -> list[list[str]]:
    async with relay(dsn) as claims:
        pin = psycopg.connect(dsn)
        pin.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        pin.execute("select count(*) from pg_class")
        producer = await asyncio.create_subprocess_exec(sys.executable, "-c", PRODUCER, dsn, str(rate), str(seconds))
        begun = time.monotonic()
        await producer.wait()
        ended = time.monotonic()
        await asyncio.sleep(1)
        pin.close()
    tenth = (ended - begun) / 10
    rows = []
    for name, low in (("first tenth", begun), ("last tenth", ended - tenth)):
        seen = claims.between(low, low + tenth)
        took = [claim[1] * 1000 for claim in seen if claim[2]]
        rows.append(
            [
                name,
                f"{sum(claim[2] for claim in seen) / tenth:,.0f}",
                f"{statistics.median(took):.2f}",
                f"{percentile(took, 0.99):.2f}",
            ]
        )
    return rows


def pinned(rate: int = 2000, seconds: int = 120) -> list[list[str]]:
    """Return throughput and claim times at the begin and the end, with a snapshot held open all the time."""
    with tempfile.TemporaryDirectory(prefix="outbox-bench-") as folder, fresh_server(folder) as server:
        prepare(server.dsn())
        return asyncio.run(_pinned(server.dsn(), rate, seconds))


async def _drain_for(dsn: str, seconds: float) -> list[float]:
    async with relay(dsn) as claims:
        await asyncio.sleep(seconds)
    return [claim[1] * 1000 for claim in claims.seen if claim[2]]


def backlog(due: int = 1_000_000, history: int = 5_000_000) -> list[list[str]]:
    """Return claim times and the time of `outbox status` over a large backlog, not analysed after loading."""
    with tempfile.TemporaryDirectory(prefix="outbox-bench-") as folder, fresh_server(folder) as server:
        prepare(server.dsn())
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute(
                "insert into outbox.events (id, type, payload, recorded_at)"
                " select outbox.new_event_id(clock_timestamp()), 'bench', '{}', now() from generate_series(1, %s)",
                [due],
            )
            connection.execute(
                "insert into outbox.deliveries (event_id, destination_id, due_at, recorded_at)"
                " select id, 1, clock_timestamp(), recorded_at from outbox.events"
            )
            connection.execute(
                "insert into outbox.attempts (delivery_id, event_id, destination_id, attempt, started_at, outcome)"
                " select n, gen_random_uuid(), 1, 1, now() - random() * interval '20 hours', 'delivered'"
                " from generate_series(1, %s) n",
                [history],
            )
        begun = time.monotonic()
        command = [sys.executable, "-m", "outbox", "status", "--json", "--dsn", server.dsn()]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        status_seconds = time.monotonic() - begun
        took = asyncio.run(_drain_for(server.dsn(), 10))
    figures = [f"{statistics.median(took):.2f}", f"{percentile(took, 0.99):.2f}", f"{status_seconds:.2f}"]
    return [[f"{due:,}", f"{history:,}", *figures]]
