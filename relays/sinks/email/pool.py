"""Sessions with one submission server, kept for a while: few at once, one message at a time each."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from relays.sinks.email.session import Session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from relays.sinks.email.budget import Budget
    from relays.sinks.email.server import Server

__all__ = ["Pool", "PoolBusy"]

MESSAGES_PER_SESSION = 100
IDLE_SECONDS = 30.0
WAIT_SHARE = 0.5


class PoolBusy(Exception):
    """All sessions were in use for half of the attempt's time."""


class Pool:
    """At most `connections` sessions with `server`."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._slots = asyncio.Semaphore(server.settings.connections)
        self._idle: dict[Session, asyncio.TimerHandle] = {}
        self._quitting: set[asyncio.Task[None]] = set()
        self._is_retired = False

    @asynccontextmanager
    async def session(self, budget: Budget, *, is_fresh: bool = False) -> AsyncIterator[Session]:
        """Lend a session, a new one if asked or none is idle. It is kept only if it comes back clean.

        Raises:
            PoolBusy: none became free in time.
        """
        await self._take_slot(budget)
        session = Session(self.server) if is_fresh else self._idle_session()
        try:
            yield session
        finally:
            self._slots.release()
            self._give_back(session)

    async def _take_slot(self, budget: Budget) -> None:
        try:
            await asyncio.wait_for(self._slots.acquire(), budget.seconds(float("inf")) * WAIT_SHARE)
        except TimeoutError:
            count = self.server.settings.connections
            raise PoolBusy(f"all {count} connections to {self.server.name} are busy; raise connections") from None

    def _idle_session(self) -> Session:
        while self._idle:
            session, timer = self._idle.popitem()  # the latest: others get old and are closed
            timer.cancel()
            if session.is_usable:
                return session
            session.close()
        return Session(self.server)

    def _give_back(self, session: Session) -> None:
        if not session.is_usable:
            session.close()
        elif self._is_retired or session.messages >= MESSAGES_PER_SESSION:
            self._quit(session)
        else:
            self._idle[session] = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._expire, session)

    def _expire(self, session: Session) -> None:
        if self._idle.pop(session, None) is not None:
            self._quit(session)

    def _quit(self, session: Session) -> None:
        task = asyncio.get_running_loop().create_task(session.quit())
        self._quitting.add(task)
        task.add_done_callback(self._quitting.discard)

    def retire(self) -> None:
        """Keep no session any more: the settings have changed, or the relay stops."""
        self._is_retired = True
        while self._idle:
            session, timer = self._idle.popitem()
            timer.cancel()
            self._quit(session)

    async def close(self) -> None:
        """Retire, and come back when the idle sessions have ended."""
        self.retire()
        if self._quitting:
            await asyncio.wait(self._quitting)
