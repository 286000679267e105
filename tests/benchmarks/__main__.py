"""`make bench`: ours and the peers, measured in one run on one machine. Prints figures, passes no verdict.

python -m tests.benchmarks [drain] [--count 60000] [--rounds 3] [--only outbox-relay,txoutbox]
"""

from __future__ import annotations

import argparse
import platform

from rich.console import Console
from rich.table import Table

from tests.benchmarks import drain

HEADINGS = ["system", "processes", "events/s", "range", "worker µs", "server µs", "WAL bytes", "settings"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["drain"], default="drain")
    parser.add_argument("--count", type=int, default=60_000, help="events to drain")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each; the median is shown")
    parser.add_argument("--only", help="names, separated by commas; default: all")
    arguments = parser.parse_args()
    names = arguments.only.split(",") if arguments.only else drain.everybody()
    console = Console(width=200)
    console.print(
        f"{platform.platform()}, Python {platform.python_version()}, {arguments.count} events, no-op handlers"
    )
    table = Table(*HEADINGS, box=None, title="drain", title_justify="left")
    for row in drain.run(arguments.count, arguments.rounds, names):
        table.add_row(*row)
    console.print(table)


if __name__ == "__main__":
    main()
