"""Handlers that kill, block or fail, for tests of what a relay survives."""

from __future__ import annotations

import os
import signal

import relays


@relays.handler("poison.kill")
async def kill(delivery):
    """Kill the relay process, as the kernel does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


@relays.handler("healthy.*")
async def healthy(delivery):
    """Do nothing."""


@relays.handler("poison.exit")
async def leave(delivery):
    """Raise what is no Exception."""
    raise SystemExit(3)
