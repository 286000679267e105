"""What the Python peers have in common: `PEER.py setup`, `preload N`, `enqueue N GAP` and `work`, with BENCH_URI set.

`enqueue` commits one event a transaction and prints the monotonic time of each commit. A worker writes the monotonic
time of its first handler call to the file BENCH_FIRST, and, where BENCH_STARTS names a file, a line "number time" to
it for every call.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

URI = os.environ.get("BENCH_URI", "")  # noqa: TID251 - set by the benchmark that starts this script
FIRST = Path(os.environ.get("BENCH_FIRST", "/dev/null"))  # noqa: TID251 - see above
STARTS = os.environ.get("BENCH_STARTS")  # noqa: TID251 - see above
NOTE = "x" * 200
BATCH = 1000
ORDER = "insert into shop_orders (total) values (1.10)"

_is_noted = False


def payload(number: int) -> dict:
    return {"i": number, "note": NOTE}


def chunks(count: int):
    """Yield ranges of at most a thousand numbers."""
    for start in range(0, count, BATCH):
        yield range(start, min(count, start + BATCH))


if STARTS is None:

    def note_start(_) -> None:
        """Note when the first handler of this process began."""
        global _is_noted  # noqa: PLW0603 - one flag of a script
        if not _is_noted:
            _is_noted = True
            FIRST.write_text(str(time.monotonic()))
else:
    _starts = Path(STARTS).open("a", buffering=1)  # noqa: SIM115 - open as long as the worker lives

    def note_start(number) -> None:
        """Note when the handler of event `number()` began."""
        _starts.write(f"{number()} {time.monotonic()}\n")


async def enqueue(writer, count: int, gap: float) -> None:
    """Commit `count` events `gap` seconds apart; `writer()` gives a function that commits one."""
    async with writer() as commit_one:
        times = []
        for number in range(count):
            if gap:
                await asyncio.sleep(gap)
            await commit_one(number)
            times.append(time.monotonic())
    sys.stdout.write("\n".join(map(str, times)) + "\n")


def main(setup, preload, writer, work) -> None:
    command, *arguments = sys.argv[1:]
    match command:
        case "setup":
            asyncio.run(setup())
        case "preload":
            asyncio.run(preload(int(arguments[0])))
        case "enqueue":
            asyncio.run(enqueue(writer, int(arguments[0]), float(arguments[1])))
        case "work":
            asyncio.run(work())
