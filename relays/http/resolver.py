"""Names to addresses, in own threads: the guard sees what is dialled, a slow name stops no other."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Resolver", "lookup"]

Addresses = tuple[str, ...]
Value = TypeVar("Value")

RESOLVE_SECONDS = 3.0
KEEP_SECONDS = 10.0
MOST_NAMES = 10_000
MOST_THREADS = 64
MOST_THREADS_OF_SLOW_NAMES = 16
"""Names that took too long the last time share these: dead name servers of some must not stop the lookups of all."""


def lookup(host: str) -> Addresses:
    """Return every address of `host`, asking the system; blocks.

    Raises:
        OSError: there is none, or nobody to ask.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # "a..b" and labels of 64 characters
        raise OSError(f"{host} is not a name") from error
    return tuple(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


class Resolver:
    """Resolves a name once for all who ask at the same time, and keeps the answer for 10 s.

    `ask` maps a name to its addresses and may block: it runs in a thread of its own, at most 64 at a time and 16 more
    of names that were slow.
    """

    def __init__(self, ask: Callable[[str], Addresses] = lookup) -> None:
        self._ask = ask
        self._known: OrderedDict[str, tuple[float, Addresses]] = OrderedDict()
        self._asking: dict[str, asyncio.Task[Addresses]] = {}
        self._threads = asyncio.Semaphore(MOST_THREADS)
        self._threads_of_slow = asyncio.Semaphore(MOST_THREADS_OF_SLOW_NAMES)
        self._slow: OrderedDict[str, None] = OrderedDict()

    async def resolve(self, host: str) -> Addresses:
        """Return every address of `host`.

        Raises:
            OSError: there is none, or no answer within 3 s.
        """
        known = self._known.get(host)
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        asked = self._asking.get(host)
        if asked is None:
            asked = self._asking[host] = asyncio.create_task(self._answer(host))
            asked.add_done_callback(lambda done: self._finished(host, done))
        try:
            # Shielded: one caller's deadline must not take the answer from the others.
            return await asyncio.wait_for(asyncio.shield(asked), RESOLVE_SECONDS)
        except TimeoutError:
            raise OSError(f"no answer within {RESOLVE_SECONDS:g} s") from None

    def _finished(self, host: str, done: asyncio.Task[Addresses]) -> None:
        del self._asking[host]
        if not done.cancelled():
            done.exception()  # else asyncio complains in the log about the one nobody waited for

    async def _answer(self, host: str) -> Addresses:
        async with self._threads_of_slow if host in self._slow else self._threads:
            began = time.monotonic()
            try:
                addresses = await _in_thread(self._ask, host)
            finally:
                self._judge(host, time.monotonic() - began)
        if not addresses:
            raise OSError("it has no address")
        _remember(self._known, host, (time.monotonic() + KEEP_SECONDS, addresses))
        return addresses

    def _judge(self, host: str, seconds: float) -> None:
        self._slow.pop(host, None)
        if seconds > RESOLVE_SECONDS:
            _remember(self._slow, host, None)


def _remember(names: OrderedDict[str, Value], host: str, value: Value) -> None:
    names[host] = value
    names.move_to_end(host)
    if len(names) > MOST_NAMES:
        names.popitem(last=False)


async def _in_thread(ask: Callable[[str], Addresses], host: str) -> Addresses:
    """Return `ask(host)` from a daemon thread: Python waits for an executor's at exit, and a resolver can hang."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Addresses] = loop.create_future()

    def run() -> None:
        try:
            found: Addresses | Exception = ask(host)
        except Exception as error:  # noqa: BLE001 - raised again where the answer is awaited
            found = error
        with suppress(RuntimeError):  # the loop is closed, nobody waits any more
            loop.call_soon_threadsafe(_settle, answer, found)

    threading.Thread(target=run, name=f"resolve {host}", daemon=True).start()
    return await answer


def _settle(answer: asyncio.Future[Addresses], found: Addresses | Exception) -> None:
    if answer.done():
        return
    if isinstance(found, Exception):
        answer.set_exception(found)
    else:
        answer.set_result(found)
