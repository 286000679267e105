"""Handlers that never finish, for tests that look at a relay at work."""

from __future__ import annotations

import asyncio

import relays


@relays.handler("order.*")
@relays.handler("never.*")
async def wait_for_ever(delivery):
    await asyncio.Event().wait()
