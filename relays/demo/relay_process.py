"""The demo's relay: a process of its own, started as an operator would."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from outbox.errors import OutboxError

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator

__all__ = ["RelayEnded", "running_relay"]


class RelayEnded(OutboxError):
    """The relay ended before its time, or in another way than it should."""

    def __init__(self, process: Process) -> None:
        super().__init__(f"the relay ended with exit code {process.returncode}; what it said stands above")


@asynccontextmanager
async def running_relay(dsn: str) -> AsyncIterator[Process]:
    """Run a relay; it is asked to stop at the end, and should do so in peace.

    Raises:
        RelayEnded: it did not end with exit code 0.
    """
    command = [sys.executable, "-P", "-m", "relays", "--dsn", dsn, "--app", "relays.demo.app", "--log-level", "error"]
    # A session of its own: Ctrl-C is meant for the demo, which stops its relay in order.
    process = await asyncio.create_subprocess_exec(*command, start_new_session=True)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
    if process.returncode != 0:
        raise RelayEnded(process)
