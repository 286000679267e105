"""How fast a backlog of no-op events is drained, ours and the peers' in one run on the same server.

Method: preload, VACUUM ANALYZE, checkpoint, start the workers, time from the first handler start until the database
says that nothing is open. CPU is that of the workers and of PostgreSQL per event, WAL the bytes per event.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from outbox.embedded import EmbeddedServer
from tests.benchmarks.contestants import BY_NAME, ROOT, cache_folder

LONGEST_SECONDS = 120.0
TICKS = os.sysconf("SC_CLK_TCK")
SERVER = {"shared_buffers": "1GB", "max_wal_size": "8GB", "max_connections": "200"}


@dataclass(frozen=True)
class Prepared:
    """A contestant that is set up in a database of its own."""

    dsn: str
    command: list[str]
    environment: dict[str, str]

    def run(self, *arguments: str) -> str:
        """Run one of its commands to the end and return what it printed."""
        done = subprocess.run(
            [*self.command, *arguments],
            check=True,
            env=self.environment,
            timeout=300,
            stdout=subprocess.PIPE,
            text=True,
        )
        return done.stdout

    def start_worker(self, **environment: str) -> subprocess.Popen:
        """Start a worker process."""
        return subprocess.Popen(
            [*self.command, "work"],
            env={**self.environment, **environment},
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


@dataclass(frozen=True)
class Drained:
    """One run: events per second, and what an event cost. None: it did not finish in time."""

    rate: float | None
    worker_us: float
    server_us: float
    wal_bytes: float


class Arena:
    """One server; a fresh database for every run."""

    def __init__(self, server: EmbeddedServer) -> None:
        self.server = server
        self.home = cache_folder()

    def fresh(self, name: str = "bench") -> str:
        """Return the DSN of a new database with the table of the application's own rows."""
        with psycopg.connect(self.server.dsn(), autocommit=True) as admin:
            admin.execute(f"drop database if exists {name} with (force)")
            admin.execute(f"create database {name}")
        with psycopg.connect(self.server.dsn(name), autocommit=True) as connection:
            connection.execute("create table shop_orders (id bigint generated always as identity, total numeric)")
        return self.server.dsn(name)

    def prepare(self, contestant: str, count: int = 0) -> Prepared:
        """Set up in a fresh database, and preload."""
        dsn = self.fresh()
        peer = BY_NAME[contestant]
        prepared = Prepared(dsn, peer.command(self.home), peer.environment(self.home, self.server.path, "bench"))
        prepared.run("setup")
        if count:
            prepared.run("preload", str(count))
        return prepared

    def drain(self, contestant: str, processes: int, count: int) -> Drained:
        """Run once."""
        with tempfile.TemporaryDirectory() as folder:
            firsts = [Path(folder) / str(number) for number in range(processes)]
            prepared = self.prepare(contestant, count)
            with psycopg.connect(prepared.dsn, autocommit=True) as watch:
                watch.execute("vacuum analyze")
                watch.execute("checkpoint")
                before = self._server_cpu(), _wal(watch)
                workers = [prepared.start_worker(BENCH_FIRST=str(first)) for first in firsts]
                try:
                    ended = wait_for_end(watch, BY_NAME[contestant].is_done)
                    worker_us = sum(_cpu(worker.pid) for worker in workers) / count * 1e6
                finally:
                    stop(workers)
                server_us = (self._server_cpu() - before[0]) / count * 1e6
                wal = (_wal(watch) - before[1]) / count
            begun = [float(first.read_text()) for first in firsts if first.exists()]
        rate = count / (ended - min(begun)) if ended is not None and begun else None
        return Drained(rate, worker_us, server_us, wal)

    def _server_cpu(self) -> float:
        """CPU seconds of the postmaster, its children, and those it has reaped."""
        postmaster = int((self.server.path / "postmaster.pid").read_text().split("\n", 1)[0])
        total = 0
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(entry.name) == postmaster:
                total += sum(map(int, fields[11:15]))
            elif int(fields[1]) == postmaster:
                total += int(fields[11]) + int(fields[12])
        return total / TICKS


def _wal(connection: psycopg.Connection) -> float:
    return float(connection.execute("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()[0])


def _cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def wait_for_end(connection: psycopg.Connection, is_done: str) -> float | None:
    """Return when the database said that nothing is open, or None if it took too long."""
    deadline = time.monotonic() + LONGEST_SECONDS
    while time.monotonic() < deadline:
        if connection.execute(is_done).fetchone()[0]:
            return time.monotonic()
        time.sleep(0.005)
    return None


def stop(workers: list[subprocess.Popen]) -> None:
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    for worker in workers:
        try:
            worker.wait(5)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


@contextmanager
def arena():
    """Start a server for as long as the block runs."""
    with tempfile.TemporaryDirectory(prefix="outbox-bench-") as folder:
        Path(folder).chmod(0o755)
        with EmbeddedServer(Path(folder) / "pg", settings=SERVER) as server:
            yield Arena(server)


def run(count: int, rounds: int, names: list[str], processes: tuple[int, ...] = (1, 2)) -> list[list[str]]:
    """Return the rows of the table, ours first; rounds alternate, so that a slow minute hits all."""
    results: dict[tuple[str, int], list[Drained]] = {}
    with arena() as own:
        for _ in range(rounds):
            for name in names:
                for number in processes:
                    results.setdefault((name, number), []).append(_drained(own, name, number, count))
    return [_row(name, number, drained) for (name, number), drained in results.items()]


def _drained(arena: Arena, name: str, processes: int, count: int) -> Drained:
    """Run once; a peer that cannot be installed or set up here is a row without figures, not the end."""
    try:
        return arena.drain(name, processes, count)
    except (subprocess.SubprocessError, OSError) as error:
        sys.stderr.write(f"{name}: {error}\n")
        return Drained(None, 0.0, 0.0, 0.0)


def _row(name: str, processes: int, runs: list[Drained]) -> list[str]:
    rates = sorted(run.rate for run in runs if run.rate is not None)
    settings = BY_NAME[name].settings
    if not rates:
        return [name, str(processes), "not finished", "", "", "", "", settings]
    return [
        name,
        str(processes),
        f"{statistics.median(rates):,.0f}",
        f"{rates[0]:,.0f} to {rates[-1]:,.0f}",
        f"{statistics.median(run.worker_us for run in runs):.0f}",
        f"{statistics.median(run.server_us for run in runs):.0f}",
        f"{statistics.median(run.wal_bytes for run in runs):.0f}",
        settings,
    ]
