"""Connections kept for the next request to the same receiver. No I/O: it decides which, aiohttp closes them."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

    from aiohttp.connector import Connection

__all__ = ["IdleConnections"]

MOST_IDLE = 500
"""10,000 destinations would keep 10,000 sockets otherwise."""

IDLE_SECONDS = 15.0


class IdleConnections:
    """Idle connections by receiver; the work per request does not grow with the number of receivers.

    Of one receiver the last used is taken first, and of all the least recently used is closed first.
    """

    def __init__(self) -> None:
        self._by_receiver: dict[Hashable, deque[Connection]] = {}
        self._kept: OrderedDict[Connection, tuple[Hashable, float]] = OrderedDict()
        self._look_at = 0.0

    def take(self, receiver: Hashable, now: float) -> Connection | None:
        """Return a connection to `receiver` that is still good at `now` (monotonic seconds), or None."""
        while (idle := self._by_receiver.get(receiver)) is not None:
            connection = idle.pop()
            if not idle:
                del self._by_receiver[receiver]
            _, kept_at = self._kept.pop(connection)
            if now - kept_at <= IDLE_SECONDS and is_reusable(connection):
                return connection
            connection.close()
        return None

    def keep(self, receiver: Hashable, connection: Connection, now: float) -> None:
        """Keep `connection` for later, or close it when the receiver said it would."""
        if not is_reusable(connection):
            connection.close()
            return
        self._by_receiver.setdefault(receiver, deque()).append(connection)
        self._kept[connection] = (receiver, now)
        if now >= self._look_at or len(self._kept) > MOST_IDLE:
            self._look_at = now + IDLE_SECONDS / MOST_IDLE  # often enough that the oldest go as fast as they come
            self._close_oldest(now)

    def close(self) -> None:
        """Close all of them."""
        for connection in self._kept:
            connection.close()
        self._kept.clear()
        self._by_receiver.clear()

    def _close_oldest(self, now: float) -> None:
        """Close the least recently used one if it is too old, or one too many."""
        connection, (receiver, kept_at) = next(iter(self._kept.items()))
        if now - kept_at <= IDLE_SECONDS and len(self._kept) <= MOST_IDLE:
            return
        del self._kept[connection]
        idle = self._by_receiver[receiver]
        idle.popleft()  # this one: they are kept in the order of their last use
        if not idle:
            del self._by_receiver[receiver]
        connection.close()


def is_reusable(connection: Connection) -> bool:
    """Return whether a next request may go out: both sides agree, and nothing came that nobody asked for.

    An answer that came unasked would be taken for that of the next request, which would count as delivered.
    """
    protocol = connection.protocol
    return protocol is not None and protocol.is_connected() and not protocol.should_close
