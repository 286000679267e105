"""Memory of one relay of ours at concurrency 500 with payloads of 64 KiB: does it grow with what went through?"""

from __future__ import annotations

import time
from pathlib import Path

import psycopg

from tests.benchmarks.contestants import OURS
from tests.benchmarks.drain import arena, stop

COLUMNS = ["deliveries", "payload", "MiB at a tenth", "at half", "at the end", "peak"]
LONGEST_SECONDS = 900.0

# one event goes to all destinations: the payload is stored once and read for every delivery
ADD_MANY = """
    insert into outbox.destinations (name, sink, event_types)
    select 'many-' || n, 'handler', array[%s] from generate_series(1, %s) n"""
RECORD = """
    select outbox.record_event('pausing', jsonb_build_object('i', n, 'text',
        (select string_agg(md5(n::text || m), '') from generate_series(1, 2047) m)))
    from generate_series(1, %s) n"""
LEFT = "select count(*) from outbox.deliveries"


def peak_mib(pid: int) -> float:
    """Return the most memory the process has had so far."""
    return _status(pid, "VmHWM")


def _status(pid: int, field: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field + ":"))


def growth(deliveries: int = 200_000, destinations: int = 1000) -> list[list[str]]:
    """Return a relay's memory along a drain of `deliveries`, each of which pauses for a moment."""
    with arena() as own:
        prepared = own.prepare(OURS)
        with psycopg.connect(prepared.dsn, autocommit=True) as connection:
            connection.execute(ADD_MANY, ["pausing", destinations])
            connection.execute(RECORD, [deliveries // destinations])
            connection.execute("vacuum analyze")
            worker = prepared.start_worker(BENCH_CONCURRENCY="500")
            try:
                seen = _watch(connection, worker.pid, deliveries)
                peak = peak_mib(worker.pid)
            finally:
                stop([worker])
    return [[f"{deliveries:,}", "64 KiB", *(f"{mib:.0f}" for mib in seen), f"{peak:.0f}"]]


def _watch(connection: psycopg.Connection, pid: int, deliveries: int) -> list[float]:
    """Return the memory when a tenth, a half and all were through."""
    seen = []
    deadline = time.monotonic() + LONGEST_SECONDS
    for share in (0.9, 0.5, 0.0):
        while connection.execute(LEFT).fetchone()[0] > share * deliveries:
            if time.monotonic() > deadline:
                raise TimeoutError("the relay did not finish in time")
            time.sleep(0.1)
        seen.append(_status(pid, "VmRSS"))
    return seen
