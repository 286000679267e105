"""Names to addresses, in own threads: the guard sees what is dialled, a slow name stops no other."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Resolver", "lookup"]

Addresses = tuple[str, ...]

RESOLVE_SECONDS = 3.0
KEEP_SECONDS = 10.0
MOST_NAMES = 10_000
THREADS = 32


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

    `ask` maps a name to its addresses and may block; it runs in one of 32 threads.
    """

    def __init__(self, ask: Callable[[str], Addresses] = lookup) -> None:
        self._ask = ask
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="resolve")
        self._known: OrderedDict[str, tuple[float, Addresses]] = OrderedDict()
        self._asking: dict[str, asyncio.Future[Addresses]] = {}

    async def resolve(self, host: str) -> Addresses:
        """Return every address of `host`.

        Raises:
            OSError: there is none.
            TimeoutError: no answer within 3 s.
        """
        known = self._known.get(host)
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        asked = self._asking.get(host)
        if asked is None:
            asked = asyncio.get_running_loop().run_in_executor(self._threads, self._ask, host)
            self._asking[host] = asked
            asked.add_done_callback(lambda answer: self._answered(host, answer))
        # Shielded: one caller's deadline must not take the answer from the others.
        return await asyncio.wait_for(asyncio.shield(asked), RESOLVE_SECONDS)

    def close(self) -> None:
        """Stop the threads; those that still wait for an answer end with it."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _answered(self, host: str, answer: asyncio.Future[Addresses]) -> None:
        del self._asking[host]
        if answer.cancelled() or answer.exception() is not None:
            return
        self._known[host] = (time.monotonic() + KEEP_SECONDS, answer.result())
        self._known.move_to_end(host)
        if len(self._known) > MOST_NAMES:
            self._known.popitem(last=False)
