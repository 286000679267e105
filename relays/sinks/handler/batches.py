"""Gathers deliveries that arrive at about the same time into one call of a handler."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relays.deliveries import Delivery
    from relays.results import Result
    from relays.sinks.handler.groups import GroupCall

__all__ = ["Batches"]

LINGER_SECONDS = 0.002
"""How long an incomplete batch waits for more: claims bring many deliveries at once, within less than this."""


class Batches:
    """Batches of at most `size` for one handler and destination."""

    def __init__(self, group: GroupCall, size: int) -> None:
        self._group = group
        self._size = size
        self._waiting: dict[Delivery, asyncio.Future[Result]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def send(self, delivery: Delivery) -> Result:
        """Return the result of `delivery` once its batch is handled.

        One that was tried before goes alone: what makes a batch fail then fails by itself, and the rest of that
        batch is delivered.
        """
        if delivery.attempt > 1:
            [result] = await self._group([delivery])
            return result
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._waiting[delivery] = future
        if len(self._waiting) >= self._size:
            self._start()
        elif self._timer is None:
            self._timer = loop.call_later(LINGER_SECONDS, self._start)
        return await future

    def _start(self) -> None:
        """Hand over what has gathered; whoever was cancelled meanwhile is left out."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = {delivery: future for delivery, future in self._waiting.items() if not future.done()}
        self._waiting = {}
        if not batch:
            return
        task = asyncio.get_running_loop().create_task(self._run(batch))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        left = set(batch.values())

        def ended(future: asyncio.Future[Result]) -> None:
            left.discard(future)
            if not left:
                task.cancel()  # nobody waits any more: past the deadline, or the relay stops

        for future in batch.values():
            future.add_done_callback(ended)

    async def _run(self, batch: dict[Delivery, asyncio.Future[Result]]) -> None:
        results = await self._group(list(batch))
        for future, result in zip(batch.values(), results, strict=True):
            if not future.done():
                future.set_result(result)
