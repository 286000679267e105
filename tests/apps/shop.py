"""Handlers for tests that run a relay process."""

from __future__ import annotations

import asyncio
import time

import relays


@relays.handler("order.paid")
async def paid(delivery):
    await asyncio.sleep(0)


@relays.handler("stock.*")
def stock(delivery):
    return relays.Delivered(detail=f"counted {delivery.payload['n']}")


@relays.handler("slow.loop")
async def block_the_loop(delivery):
    time.sleep(delivery.payload["seconds"])  # noqa: ASYNC251 - the mistake under test


@relays.handler("slow.cpu")
async def burn(delivery):
    ends = time.monotonic() + delivery.payload["seconds"]
    while time.monotonic() < ends:
        sum(range(1000))


@relays.handler("slow.wait")
async def wait(delivery):
    await asyncio.Event().wait()


@relays.handler("slow.thread")
def wait_in_thread(delivery):
    time.sleep(delivery.payload["seconds"])


@relays.handler("later")
def later(delivery):
    if delivery.attempt == 1:
        raise relays.RetryLater(0.1, "not yet")


@relays.handler("never")
def never(delivery):
    raise relays.GiveUp("no such customer")


@relays.handler("exit")
def leave(delivery):
    raise SystemExit(5)
