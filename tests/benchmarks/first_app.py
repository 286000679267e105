"""A no-op handler that notes when the first call began, as the peers' handlers do."""

from __future__ import annotations

import os
import time
from pathlib import Path

import relays

_FIRST = Path(os.environ["BENCH_FIRST"])  # noqa: TID251 - set by the benchmark that starts this process
_noted: list[float] = []


@relays.handler("bench")
async def bench(delivery):
    if not _noted:
        _noted.append(time.monotonic())
        _FIRST.write_text(str(_noted[0]))  # noqa: ASYNC240 - once per process
