"""`make bench`: ours and the peers, measured in one run on one machine. Prints figures, passes no verdict.

    python -m tests.benchmarks [all|drain|enqueue|latency|webhook|pinned|backlog|many|noisy|memory] [--only NAME,NAME]

What else recording, webhooks, mail and handlers cost: python -m tests.benchmarks.recording, .webhook, .mail,
.handler_sink
"""

from __future__ import annotations

import argparse
import platform
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from tests.benchmarks import drain, memory, neighbours, observed, timing, webhook
from tests.benchmarks.contestants import BY_NAME, everybody

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DRAIN = ["system", "processes", "events/s", "range", "worker µs", "server µs", "WAL bytes", "settings"]
PINNED = ["of the run", "events/s", "claim ms p50", "claim ms p99"]
BACKLOG = ["due", "history", "claim ms p50", "claim ms p99", "status s"]
WEBHOOK = ["1 KiB, signed, 50 connections, one process", "requests/s", "of bare"]


def main() -> None:
    arguments = parsed()
    console = Console(width=200)
    console.print(f"{platform.platform()}, Python {platform.python_version()}")
    measures = _measures(arguments)
    for name in measures if arguments.what == "all" else [arguments.what]:
        title, headings, measure = measures[name]
        show(console, title, headings, measure())


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["all", *_measures(argparse.Namespace())], default="all")
    parser.add_argument("--count", type=int, default=60_000, help="events to drain")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each; the median is shown")
    parser.add_argument("--seconds", type=int, default=600, help="length of the pinned run")
    parser.add_argument("--due", type=int, default=1_000_000, help="rows of the backlog; history is five times that")
    parser.add_argument("--only", type=lambda names: names.split(","), help="names, separated by commas; default: all")
    arguments = parser.parse_args()
    for name in arguments.only or ():
        if name not in BY_NAME:
            parser.error(f"--only {name}: not known; known are {', '.join(BY_NAME)}")
    return arguments


def _measures(of: argparse.Namespace) -> dict[str, tuple[str, list[str], Callable[[], list[list[str]]]]]:
    """Return each table's title, headings and measurement, in the order they are run."""
    names = getattr(of, "only", None) or everybody()
    rounds, count, seconds, due = (getattr(of, name, 0) for name in ("rounds", "count", "seconds", "due"))
    return {
        "drain": (f"drain of {count:,} no-op events", DRAIN, lambda: drain.run(count, rounds, names)),
        "enqueue": (
            "a business row and an event per transaction, one connection",
            timing.ENQUEUE,
            lambda: timing.enqueue(names, rounds=rounds),
        ),
        "latency": (
            "commit to handler start, worker idle, a commit every 20 ms",
            timing.LATENCY,
            lambda: timing.latency(names),
        ),
        "webhook": ("webhooks to a receiver beside it", WEBHOOK, lambda: webhook.rows(rounds=rounds)),
        "pinned": (
            f"2,000 events/s for {seconds} s under a held snapshot",
            PINNED,
            lambda: observed.pinned(seconds=seconds),
        ),
        "backlog": ("large backlog, not analysed after loading", BACKLOG, lambda: observed.backlog(due, 5 * due)),
        "many": ("many destinations", neighbours.MANY, neighbours.many),
        "noisy": ("commit to handler start beside a slow destination", neighbours.NOISY, neighbours.noisy),
        "memory": ("memory of one relay at concurrency 500", memory.COLUMNS, memory.growth),
    }


def show(console: Console, title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(*headings, box=None, title=title, title_justify="left")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print()


if __name__ == "__main__":
    main()
