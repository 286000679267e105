"""Gives up on database connections that do not answer.

A firewall or a pooler that forgets a connection tells neither side: its statement would be waited for until the relay
is restarted. A server that is merely slow is asked to cancel first, so that it does not work for nobody.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ANSWER_SECONDS", "Patience", "answering_within", "cut"]

log = logging.getLogger("relays.patience")

ANSWER_SECONDS = 10.0
"""How long a statement may take at first; the statements of a relay take milliseconds."""

LONGEST_SECONDS = 80.0
CANCEL_SECONDS = 3.0


class Patience:
    """How long one session waits for an answer: twice as long after each statement that took too long."""

    def __init__(self) -> None:
        self._seconds = ANSWER_SECONDS

    @contextmanager
    def waiting(self, connection: psycopg.AsyncConnection[Any]) -> Iterator[None]:
        """End what runs on `connection` in this block with an error when it takes too long."""
        loop = asyncio.get_running_loop()
        giving_up: list[asyncio.Task[None]] = []
        timer = loop.call_later(self._seconds, lambda: giving_up.append(loop.create_task(self._give_up(connection))))
        try:
            yield
            if not giving_up:
                self._seconds = ANSWER_SECONDS
        finally:
            timer.cancel()
            for task in giving_up:
                task.cancel()

    async def _give_up(self, connection: psycopg.AsyncConnection[Any]) -> None:
        log.warning("no answer from the database within %g s, giving up on this connection", self._seconds)
        self._seconds = min(self._seconds * 2, LONGEST_SECONDS)
        with suppress(psycopg.Error):
            await connection.cancel_safe(timeout=CANCEL_SECONDS)
            await asyncio.sleep(CANCEL_SECONDS)  # for the server to say that it did
        cut(connection)


@contextmanager
def answering_within(seconds: float, connection: psycopg.Connection[Any]) -> Iterator[None]:
    """End what a thread runs on `connection` in this block with an error after `seconds`."""
    timer = threading.Timer(seconds, cut, [connection])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def cut(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Let whoever waits for an answer see the end of the connection, which only its socket can do."""
    with suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)
