"""What the Python peers have in common: `PEER.py setup`, `preload N`, `work`, with BENCH_URI and BENCH_FIRST set.

A worker's first handler call writes the monotonic time to the file BENCH_FIRST, once.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

URI = os.environ.get("BENCH_URI", "")  # noqa: TID251 - set by the benchmark that starts this script
FIRST = Path(os.environ.get("BENCH_FIRST", "/dev/null"))  # noqa: TID251 - see above
NOTE = "x" * 200
BATCH = 1000

_is_noted = False


def payload(number: int) -> dict:
    return {"i": number, "note": NOTE}


def chunks(count: int):
    """Yield ranges of at most a thousand numbers."""
    for start in range(0, count, BATCH):
        yield range(start, min(count, start + BATCH))


def note_first() -> None:
    """Note when the first handler of this process began."""
    global _is_noted  # noqa: PLW0603 - one flag of a script
    if not _is_noted:
        _is_noted = True
        FIRST.write_text(str(time.monotonic()))


def main(setup, preload, work) -> None:
    command, *arguments = sys.argv[1:]
    match command:
        case "setup":
            asyncio.run(setup())
        case "preload":
            asyncio.run(preload(int(arguments[0])))
        case "work":
            asyncio.run(work())
