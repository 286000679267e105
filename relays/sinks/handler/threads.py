"""Threads for blocking handlers."""

from __future__ import annotations

import asyncio
import threading
from contextvars import copy_context
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Threads", "TooManyStuck"]


class TooManyStuck(Exception):
    """So many threads hang in calls nobody waits for any more that no further one is started."""


class _Call:
    """A call on its way through a thread."""

    __slots__ = ("context", "error", "function", "future", "loop", "value")

    def __init__(self, function: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.function = function
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.context = copy_context()
        self.value: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Keep how the call ended, also by an exception that no future takes (StopIteration)."""
        try:
            self.value = self.context.run(self.function)
        except BaseException as error:  # noqa: BLE001 - the thread goes on, whatever a handler raises
            self.error = error


class Threads:
    """As many threads as there are calls at once, used again when idle.

    Daemon threads, unlike those of `concurrent.futures`: a call that hangs keeps neither the relay from stopping nor
    the others from starting. `most_stuck` bounds how many hang past their deadline.
    """

    def __init__(self, most_stuck: int) -> None:
        self._most_stuck = most_stuck
        self._idle: list[SimpleQueue[_Call | None]] = []
        self._is_closed = False
        self.stuck = 0

    async def run(self, function: Callable[[], Any]) -> Any:
        """Call `function` in a thread and return its value; when cancelled, its end is waited for by nobody.

        Raises:
            TooManyStuck: too many calls still hang that were cancelled before.
        """
        if self.stuck >= self._most_stuck:
            raise TooManyStuck(f"{self.stuck} threads hang in handlers past their deadline")
        call = _Call(function, asyncio.get_running_loop())
        queue = self._idle.pop() if self._idle else self._start()
        queue.put(call)
        try:
            await call.future
        except asyncio.CancelledError:
            if call.future.cancelled():  # else it ended at the same moment, and was counted as ended
                self.stuck += 1
            raise
        if call.error is not None:
            raise call.error
        return call.value

    def close(self) -> None:
        """Let idle threads end; those at work are left alone."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().put(None)

    def _start(self) -> SimpleQueue[_Call | None]:
        queue: SimpleQueue[_Call | None] = SimpleQueue()
        threading.Thread(target=self._work, args=(queue,), name="outbox-handler", daemon=True).start()
        return queue

    def _work(self, queue: SimpleQueue[_Call | None]) -> None:
        while (call := queue.get()) is not None:
            call.run()
            try:
                call.loop.call_soon_threadsafe(self._finished, queue, call)
            except RuntimeError:  # the loop is closed: the relay has stopped without us
                return
            del call  # or the last delivery stays in memory until the next one

    def _finished(self, queue: SimpleQueue[_Call | None], call: _Call) -> None:
        """Take a thread back; runs in the event loop."""
        if self._is_closed:
            queue.put(None)
        else:
            self._idle.append(queue)
        if call.future.cancelled():
            self.stuck -= 1
        else:
            call.future.set_result(None)
