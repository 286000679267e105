"""What an event costs its producer, and how soon its handler begins: ours and the peers', in one run.

A producer commits a business row and an event in one transaction, first as fast as one connection can, then one every
20 ms while an idle worker waits for them. Latency is from the commit's return to the first line of the handler, on
the clock all processes share.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.contestants import BY_NAME
from tests.benchmarks.drain import Arena, Prepared, arena, stop

if TYPE_CHECKING:
    from collections.abc import Callable

ENQUEUE = ["system", "events/s", "range", "settings"]
LATENCY = ["system", "events", "p50 ms", "p90 ms", "p99 ms", "max ms", "settings"]
GAP_SECONDS = 0.02
LONGEST_SECONDS = 30.0


def percentile(values: list[float], share: float) -> float:
    """Return the value below which that share lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


def enqueue(names: list[str], count: int = 3000, rounds: int = 3) -> list[list[str]]:
    """Return events per second of one connection, a transaction each, no worker running."""
    with arena() as own:
        rates = {name: [] for name in names}
        for _ in range(rounds):
            for name in names:
                rates[name] += _attempted(name, lambda name=name: [_rate(own.prepare(name), count)])
    return [_enqueue_row(name, sorted(found)) for name, found in rates.items()]


def _rate(prepared: Prepared, count: int) -> float:
    times = [float(line) for line in prepared.run("enqueue", str(count), "0").split()]
    warm = times[count // 10 :]
    return (len(warm) - 1) / (warm[-1] - warm[0])


def _enqueue_row(name: str, rates: list[float]) -> list[str]:
    if not rates:
        return [name, "not finished", "", BY_NAME[name].settings]
    median = statistics.median(rates)
    return [name, f"{median:,.0f}", f"{rates[0]:,.0f} to {rates[-1]:,.0f}", BY_NAME[name].settings]


def latency(names: list[str], count: int = 300) -> list[list[str]]:
    """Return how long after its commit an event's handler began, with an idle worker."""
    with arena() as own:
        found = {name: _attempted(name, lambda name=name: latencies(own, name, count)) for name in names}
    return [
        [
            name,
            str(len(waits)),
            *(f"{percentile(waits, share):.2f}" for share in (0.5, 0.9, 0.99, 1.0)),
            BY_NAME[name].settings,
        ]
        for name, waits in found.items()
    ]


def latencies(own: Arena, name: str, count: int, burden: Callable[[str], None] | None = None) -> list[float]:
    """Return the milliseconds from each commit to its handler; `burden(dsn)` gives the worker more to carry."""
    with tempfile.TemporaryDirectory() as folder:
        starts = Path(folder) / "starts"
        prepared = own.prepare(name)
        if burden is not None:
            burden(prepared.dsn)
        worker = prepared.start_worker(BENCH_STARTS=str(starts))
        try:
            prepared.run("enqueue", "5", "0.1")
            _wait_for(starts, 5)  # the worker is up and has gone through a first event
            starts.write_text("")
            committed = [float(line) for line in prepared.run("enqueue", str(count), str(GAP_SECONDS)).split()]
            begun = _wait_for(starts, count)
        finally:
            stop([worker])
    return [(begun[number] - at) * 1000 for number, at in enumerate(committed)]


def _wait_for(starts: Path, count: int) -> dict[int, float]:
    """Return when each event's handler began, once `count` have."""
    deadline = time.monotonic() + LONGEST_SECONDS
    while time.monotonic() < deadline:
        lines = starts.read_text().splitlines() if starts.exists() else []
        if len(lines) >= count:
            return {int(number): float(at) for number, at in (line.split() for line in lines)}
        time.sleep(0.05)
    raise TimeoutError(f"only {len(lines)} of {count} events were handled")


def _attempted(name: str, measure) -> list[float]:
    """Measure; one that cannot be set up here, or does not finish, is a row without figures, not the end."""
    try:
        return measure()
    except (subprocess.SubprocessError, OSError) as error:
        sys.stderr.write(f"{name}: {error}\n")
        return []
