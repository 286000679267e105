"""Ends tasks before what they use is closed."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["ended"]


async def ended(task: asyncio.Task[Any]) -> None:
    """Cancel `task` and come back when it has let go, however it ended.

    A task that is only cancelled still waits for its connection's socket when that is closed: uvloop then aborts the
    process, and with other loops it may wait for the next connection with the same descriptor.
    """
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # taken note of: it was reported where it matters, or the relay is stopping anyway
