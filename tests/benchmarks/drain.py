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
from dataclasses import dataclass
from pathlib import Path

import psycopg

from outbox.embedded import EmbeddedServer
from outbox.migrate import migrate
from tests.benchmarks.contestants import PEERS_BY_NAME, ROOT, cache_folder, has_node, our_command
from tests.queues import add_destination

OURS = "outbox-relay"
OUR_SETTINGS = "--concurrency 1000, an attempt row per event"
LONGEST_SECONDS = 120.0
TICKS = os.sysconf("SC_CLK_TCK")
SERVER = {"shared_buffers": "1GB", "max_wal_size": "8GB", "max_connections": "200"}


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
        with psycopg.connect(self.server.dsn(), autocommit=True) as admin:
            admin.execute(f"drop database if exists {name} with (force)")
            admin.execute(f"create database {name}")
        return self.server.dsn(name)

    def prepare(self, contestant: str, count: int, first: Path) -> tuple[str, list[str], dict[str, str], str]:
        """Set up and preload; return the DSN, the worker's command and environment, and the query for the end."""
        dsn = self.fresh()
        if contestant == OURS:
            _preload_ours(dsn, count)
            environment = {**os.environ, "BENCH_FIRST": str(first)}  # noqa: TID251 - handed on, not read
            command = our_command(dsn, "--concurrency", "1000", "--log-level", "error")
            return dsn, command, environment, "select not exists (select from outbox.deliveries)"
        peer = PEERS_BY_NAME[contestant]
        environment = peer.environment(self.home, self.server.path, "bench", first)
        command = peer.command(self.home)
        for arguments in (["setup"], ["preload", str(count)]):
            subprocess.run([*command, *arguments], check=True, env=environment, timeout=300, stdout=subprocess.DEVNULL)
        return dsn, [*command, "work"], environment, peer.is_done

    def drain(self, contestant: str, processes: int, count: int) -> Drained:
        """Run once."""
        with tempfile.TemporaryDirectory() as folder:
            firsts = [Path(folder) / str(number) for number in range(processes)]
            dsn, command, environment, is_done = self.prepare(contestant, count, firsts[0])
            with psycopg.connect(dsn, autocommit=True) as watch:
                watch.execute("vacuum analyze")
                watch.execute("checkpoint")
                before = self._server_cpu(), _wal(watch)
                workers = [
                    subprocess.Popen(
                        command,
                        env={**environment, "BENCH_FIRST": str(first)},
                        cwd=ROOT,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                    )
                    for first in firsts
                ]
                try:
                    ended = _wait(watch, is_done)
                    worker_us = sum(_cpu(worker.pid) for worker in workers) / count * 1e6
                finally:
                    _stop(workers)
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


def _preload_ours(dsn: str, count: int) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        migrate(connection)
        add_destination(connection, "bench", sink="handler", event_types=["bench"])
        for start in range(0, count, 1000):
            connection.execute(
                "select outbox.record_events(jsonb_agg(jsonb_build_object('type', 'bench', 'payload',"
                " jsonb_build_object('i', i, 'note', repeat('x', 200))))) from generate_series(%s::int, %s::int) i",
                [start, min(start + 1000, count) - 1],
            )


def _wal(connection: psycopg.Connection) -> float:
    return float(connection.execute("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()[0])


def _cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def _wait(connection: psycopg.Connection, is_done: str) -> float | None:
    """Return when the database said that nothing is open, or None if it took too long."""
    deadline = time.monotonic() + LONGEST_SECONDS
    while time.monotonic() < deadline:
        if connection.execute(is_done).fetchone()[0]:
            return time.monotonic()
        time.sleep(0.005)
    return None


def _stop(workers: list[subprocess.Popen]) -> None:
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    for worker in workers:
        try:
            worker.wait(5)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def run(count: int, rounds: int, names: list[str], processes: tuple[int, ...] = (1, 2)) -> list[list[str]]:
    """Return the rows of the table, ours first; rounds alternate, so that a slow minute hits all."""
    with tempfile.TemporaryDirectory(prefix="outbox-bench-") as folder:
        Path(folder).chmod(0o755)
        with EmbeddedServer(Path(folder) / "pg", settings=SERVER) as server:
            arena = Arena(server)
            results: dict[tuple[str, int], list[Drained]] = {}
            for _ in range(rounds):
                for name in names:
                    for number in processes:
                        results.setdefault((name, number), []).append(_drained(arena, name, number, count))
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
    settings = OUR_SETTINGS if name == OURS else PEERS_BY_NAME[name].settings
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


def everybody() -> list[str]:
    """Return the names of all that can be measured here."""
    return [OURS, *(name for name, peer in PEERS_BY_NAME.items() if has_node() or not peer.is_node)]
