"""Database sessions of a relay: set up for the shape of its queries, reopened when they break."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import psycopg
from psycopg.adapt import Loader
from psycopg.rows import namedtuple_row, tuple_row

from outbox.database import aconnect
from relays.patience import Patience, cut
from relays.queries import query, statement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg.abc import Buffer

__all__ = ["PLAN_COUNT", "SET_PLANS", "Session"]

# Statistics of a queue table are always wrong (analysed when nearly empty, used when full): take away the plans that
# would be chosen by them. Every statement of a relay names the whole key of the index it wants.
_PLANS = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "timezone": "UTC",
}
SET_PLANS = "select " + ", ".join(f"set_config('{name}', '{value}', %s)" for name, value in _PLANS.items())

PLAN_COUNT = len(_PLANS)


class _RawJson(Loader):
    """Leaves JSON as the bytes PostgreSQL wrote: a payload is sent on, not parsed."""

    def load(self, data: Buffer) -> bytes:
        return bytes(data)


class Session:
    """One connection of a relay, reopened when it is found broken; one that does not answer is given up.

    With `is_pooled` the connection goes through a transaction pooler: settings are local to each transaction and
    nothing is prepared, because the next statement may reach another server connection.
    """

    def __init__(self, dsn: str, name: str, *, is_pooled: bool = False) -> None:
        self._dsn = dsn
        self._name = name
        self.is_pooled = is_pooled
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._patience = Patience()

    async def rows(self, name: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Run the statement `name` and return its rows as plain tuples, for hot paths."""
        return await self._run(name, parameters, tuple_row)

    async def named_rows(self, name: str, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """Run the statement `name` and return its rows with values by name."""
        return await self._run(name, parameters, namedtuple_row)

    async def execute(self, name: str, parameters: Mapping[str, Any] | None = None) -> int:
        """Run the statement `name` and return the number of rows it changed."""
        connection = await self._open()
        with self._patience.waiting(connection):
            return (await connection.execute(query(name), parameters)).rowcount

    async def _run(self, name: str, parameters: Mapping[str, Any] | None, row_factory: Any) -> list[Any]:
        connection = await self._open()
        cursor = psycopg.AsyncRawCursor(connection, row_factory=row_factory)
        numbered = statement(name)
        values = numbered.values(parameters or {})
        with self._patience.waiting(connection):
            if not self.is_pooled:
                return await (await cursor.execute(numbered.text, values)).fetchall()
            async with connection.transaction():
                await connection.execute(SET_PLANS, [True] * PLAN_COUNT)
                return await (await cursor.execute(numbered.text, values)).fetchall()

    async def _open(self) -> psycopg.AsyncConnection[Any]:
        connection = self._connection
        if connection is not None and not connection.closed:
            return connection
        self._connection = connection = await aconnect(self._dsn, application_name=f"outbox-relay {self._name}")
        connection.adapters.register_loader("json", _RawJson)
        connection.prepare_threshold = None if self.is_pooled else 0
        if not self.is_pooled:
            with self._patience.waiting(connection):
                await connection.execute(SET_PLANS, [False] * PLAN_COUNT)
        return connection

    async def reset(self) -> None:
        """Drop the connection: the next statement opens a new one (after an error, or a failover)."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if connection.lock.locked():
            cut(connection)  # lets the statement under way fail
        async with connection.lock:  # closed under somebody who waits on its socket, uvloop would abort the process
            await connection.close()

    async def __aenter__(self) -> Self:
        """Return the session; it connects at its first statement."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection."""
        await self.reset()
