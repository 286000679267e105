"""`make bench`: ours and the peers, measured in one run on one machine. Prints figures, passes no verdict.

    python -m tests.benchmarks [all|drain|latency|pinned|backlog] [--count 60000] [--rounds 3] [--only NAME,NAME]

What recording, webhooks, mail and handlers cost: python -m tests.benchmarks.recording, .webhook, .mail, .handler_sink
"""

from __future__ import annotations

import argparse
import platform
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from tests.benchmarks import drain, observed

if TYPE_CHECKING:
    from collections.abc import Sequence

DRAIN = ["system", "processes", "events/s", "range", "worker µs", "server µs", "WAL bytes", "settings"]
LATENCY = ["system", "events", "p50 ms", "p90 ms", "p99 ms", "max ms"]
PINNED = ["of the run", "events/s", "claim ms p50", "claim ms p99"]
BACKLOG = ["due", "history", "claim ms p50", "claim ms p99", "status s"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["all", "drain", "latency", "pinned", "backlog"], default="all")
    parser.add_argument("--count", type=int, default=60_000, help="events to drain")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each drain; the median is shown")
    parser.add_argument("--seconds", type=int, default=120, help="length of the pinned run")
    parser.add_argument("--due", type=int, default=1_000_000, help="rows of the backlog; history is five times that")
    parser.add_argument("--only", help="names for the drain, separated by commas; default: all")
    arguments = parser.parse_args()
    console = Console(width=200)
    console.print(f"{platform.platform()}, Python {platform.python_version()}")
    wanted = {arguments.what} if arguments.what != "all" else {"drain", "latency", "pinned", "backlog"}
    if "drain" in wanted:
        names = arguments.only.split(",") if arguments.only else drain.everybody()
        title = f"drain of {arguments.count} no-op events"
        show(console, title, DRAIN, drain.run(arguments.count, arguments.rounds, names))
    if "latency" in wanted:
        show(console, "commit to handler start, relay idle, a commit every 20 ms", LATENCY, observed.latency())
    if "pinned" in wanted:
        title = f"2,000 events/s for {arguments.seconds} s under a held snapshot"
        show(console, title, PINNED, observed.pinned(seconds=arguments.seconds))
    if "backlog" in wanted:
        show(console, "large backlog", BACKLOG, observed.backlog(arguments.due, 5 * arguments.due))


def show(console: Console, title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(*headings, box=None, title=title, title_justify="left")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print()


if __name__ == "__main__":
    main()
