"""Connections to the relay's database for transactional handlers, opened when the first one is called."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from psycopg_pool import AsyncConnectionPool, ConnectionPool

from outbox.database import resolve_dsn

if TYPE_CHECKING:
    import psycopg

__all__ = ["Connections"]

MOST_CONNECTIONS = 10
"""Of each kind. A handler's connection is busy for as long as the handler, and servers have few."""

CLOSE_SECONDS = 1.0
"""How long a pool waits for its own workers to end; with none it complains."""

PREPARE_AFTER = 5
"""Executions after which a statement is prepared, the driver's default; never behind a transaction pooler."""


class Connections:
    """A pool for async handlers and one for those in threads. Connections are plain: no setting of the relay's own.

    With `is_pooled` they go through a transaction pooler.
    """

    def __init__(self, dsn: str, *, is_pooled: bool = False) -> None:
        self._dsn = dsn
        self._options: dict[str, Any] = {
            "autocommit": True,
            "application_name": "outbox-relay handlers",
            "prepare_threshold": None if is_pooled else PREPARE_AFTER,
        }
        self._async: AsyncConnectionPool[psycopg.AsyncConnection[Any]] | None = None
        self._blocking: ConnectionPool[psycopg.Connection[Any]] | None = None
        self._opening = asyncio.Lock()

    async def for_async(self) -> AsyncConnectionPool[psycopg.AsyncConnection[Any]]:
        """Return the pool for async handlers."""
        async with self._opening:  # the second of two first calls must not find a pool that is not open yet
            if self._async is None:
                self._async = AsyncConnectionPool(
                    resolve_dsn(self._dsn), kwargs=self._options, min_size=0, max_size=MOST_CONNECTIONS, open=False
                )
                await self._async.open()
            return self._async

    def for_threads(self) -> ConnectionPool[psycopg.Connection[Any]]:
        """Return the pool for handlers in threads; to be called in the event loop, so that only one is made."""
        if self._blocking is None:
            self._blocking = ConnectionPool(
                resolve_dsn(self._dsn), kwargs=self._options, min_size=0, max_size=MOST_CONNECTIONS, open=True
            )
        return self._blocking

    async def close(self) -> None:
        """Close what is idle; a connection in use is closed when it comes back."""
        if self._async is not None:
            await self._async.close(timeout=CLOSE_SECONDS)
        if self._blocking is not None:
            await asyncio.to_thread(self._blocking.close, CLOSE_SECONDS)
