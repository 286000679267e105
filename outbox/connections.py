"""One face for the connections applications have: psycopg, SQLAlchemy, asyncpg and Django.

They are told apart by what they can do, not by their classes: none of these libraries is imported here that the
application has not loaded already. Nothing here begins, commits or rolls back (promise caller-commits); where a
driver opens a transaction with the first statement, recording is such a statement like any other.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Protocol

from outbox.errors import UsageError

if TYPE_CHECKING:
    from outbox.statements import Statement

__all__ = ["AsyncConnection", "SyncConnection", "adapt", "adapt_async"]

_KNOWN = (
    "a psycopg connection or cursor, a SQLAlchemy Session or Connection, an asyncpg connection, or a Django connection"
)


_DSN_SIGNS = frozenset(":/= ")


class SyncConnection(Protocol):
    """A connection to record on."""

    def is_atomic(self) -> bool:
        """Tell whether the next statement is part of a transaction that ends later."""
        ...

    def role(self) -> str | None:
        """Return the role it was opened as, where the driver tells."""
        ...

    def run(self, statement: Statement) -> list[str]:
        """Return the only column of the rows `statement` returns. Errors are the driver's."""
        ...


class AsyncConnection(Protocol):
    """The same for asyncio."""

    def is_atomic(self) -> bool:
        """Tell whether the next statement is part of a transaction that ends later."""
        ...

    def role(self) -> str | None:
        """Return the role it was opened as, where the driver tells."""
        ...

    async def run(self, statement: Statement) -> list[str]:
        """Return the only column of the rows `statement` returns. Errors are the driver's."""
        ...


def adapt(connection: Any) -> SyncConnection:
    """Return the face of a blocking connection.

    Raises:
        UsageError: it is none that is known, or an asynchronous one.
    """
    if isinstance(connection, str):
        connection = _django_connection(connection)
    if hasattr(connection, "in_atomic_block"):
        return DjangoConnection(connection)
    if _is_asyncpg(connection) or hasattr(connection, "sync_connection") or _is_async_session(connection):
        raise UsageError("the connection is asynchronous; use `await outbox.arecord_event(...)`")
    if hasattr(connection, "exec_driver_sql"):
        return SqlalchemyConnection(connection)
    if hasattr(connection, "get_bind"):
        return SqlalchemyConnection(connection.connection())
    psycopg_connection = _psycopg_connection(connection)
    if hasattr(psycopg_connection, "__aenter__"):
        raise UsageError("the connection is asynchronous; use `await outbox.arecord_event(...)`")
    return PsycopgConnection(psycopg_connection)


async def adapt_async(connection: Any) -> AsyncConnection:
    """Return the face of an asyncio connection.

    Raises:
        UsageError: it is none that is known, or a blocking one.
    """
    if _is_asyncpg(connection):
        return AsyncpgConnection(connection)
    if hasattr(connection, "sync_connection"):
        return AsyncSqlalchemyConnection(connection)
    if _is_async_session(connection):
        return AsyncSqlalchemyConnection(await connection.connection())
    if isinstance(connection, str) or hasattr(connection, "in_atomic_block") or hasattr(connection, "get_bind"):
        raise UsageError("the connection is blocking; use `outbox.record_event(...)`, in a thread if need be")
    psycopg_connection = _psycopg_connection(connection)
    if not hasattr(psycopg_connection, "__aenter__"):
        raise UsageError("the connection is blocking; use `outbox.record_event(...)`, in a thread if need be")
    return AsyncPsycopgConnection(psycopg_connection)


@dataclass(frozen=True, slots=True)
class PsycopgConnection:
    """psycopg.Connection."""

    connection: Any

    def is_atomic(self) -> bool:
        return _is_psycopg_atomic(self.connection)

    def role(self) -> str | None:
        return _text(self.connection.info.user)

    def run(self, statement: Statement) -> list[str]:
        import psycopg

        # A cursor of our own: the connection's factories may want other placeholders ($1) or return other rows.
        with psycopg.Cursor(self.connection, row_factory=psycopg.rows.tuple_row) as cursor:
            cursor.execute(statement.with_percents.encode(), statement.parameters)
            return [row[0] for row in cursor]


@dataclass(frozen=True, slots=True)
class AsyncPsycopgConnection:
    """psycopg.AsyncConnection."""

    connection: Any

    def is_atomic(self) -> bool:
        return _is_psycopg_atomic(self.connection)

    def role(self) -> str | None:
        return _text(self.connection.info.user)

    async def run(self, statement: Statement) -> list[str]:
        import psycopg

        async with psycopg.AsyncCursor(self.connection, row_factory=psycopg.rows.tuple_row) as cursor:
            await cursor.execute(statement.with_percents.encode(), statement.parameters)
            return [row[0] async for row in cursor]


@dataclass(frozen=True, slots=True)
class SqlalchemyConnection:
    """sqlalchemy.Connection, of any driver for PostgreSQL."""

    connection: Any

    def is_atomic(self) -> bool:
        return _is_driver_atomic(self.connection.connection)

    def role(self) -> str | None:
        return _text(self.connection.engine.url.username)

    def run(self, statement: Statement) -> list[str]:
        result = self.connection.exec_driver_sql(_in_paramstyle(statement, self.connection), statement.parameters)
        return [row[0] for row in result]


@dataclass(frozen=True, slots=True)
class AsyncSqlalchemyConnection:
    """sqlalchemy.ext.asyncio.AsyncConnection."""

    connection: Any

    def is_atomic(self) -> bool:
        return _is_driver_atomic(self.connection.sync_connection.connection)

    def role(self) -> str | None:
        return _text(self.connection.engine.url.username)

    async def run(self, statement: Statement) -> list[str]:
        sql = _in_paramstyle(statement, self.connection)
        result = await self.connection.exec_driver_sql(sql, statement.parameters)
        return [row[0] for row in result]


@dataclass(frozen=True, slots=True)
class AsyncpgConnection:
    """asyncpg.Connection, or what an asyncpg pool lends."""

    connection: Any

    def is_atomic(self) -> bool:
        # A closed one raises what asyncpg has to say about that, when the statement is sent.
        return bool(self.connection.is_in_transaction() or self.connection.is_closed())

    def role(self) -> str | None:
        return None

    async def run(self, statement: Statement) -> list[str]:
        return [row[0] for row in await self.connection.fetch(statement.with_dollars, *statement.parameters)]


@dataclass(frozen=True, slots=True)
class DjangoConnection:
    """django.db.connection, or connections[alias]."""

    connection: Any

    def is_atomic(self) -> bool:
        return bool(self.connection.in_atomic_block or not self.connection.get_autocommit())

    def role(self) -> str | None:
        return _text(self.connection.settings_dict.get("USER"))

    def run(self, statement: Statement) -> list[str]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement.with_percents, statement.parameters)
            return [row[0] for row in cursor.fetchall()]


def _text(value: Any) -> str | None:
    return str(value) if value else None


def _psycopg_connection(connection: Any) -> Any:
    if hasattr(connection, "pgconn"):
        return connection
    behind = getattr(connection, "connection", None)  # a cursor's connection
    if hasattr(behind, "pgconn"):
        return behind
    name = type(connection).__name__
    if name.endswith("Pool"):
        raise UsageError(f"{name} lends another connection each time; pass the one your transaction runs on")
    raise UsageError(f"cannot record on {name}; pass {_KNOWN}")


def _django_connection(alias: str) -> Any:
    django_db: Any = sys.modules.get("django.db")
    if django_db is None or _DSN_SIGNS & set(alias):  # a DSN may hold a password: never shown
        raise UsageError(f"cannot record on a str; pass {_KNOWN}")
    return django_db.connections[alias]


def _is_asyncpg(connection: Any) -> bool:
    return hasattr(connection, "is_in_transaction") and hasattr(connection, "fetchval")


def _is_async_session(connection: Any) -> bool:
    """Tell whether this is a session of SQLAlchemy for asyncio, also a scoped one."""
    return hasattr(connection, "get_bind") and iscoroutinefunction(connection.connection)


def _is_psycopg_atomic(connection: Any) -> bool:
    """Tell whether a statement joins a transaction: one is open, or psycopg opens one with it."""
    return not connection.autocommit or bool(connection.info.transaction_status)  # 0 is IDLE


def _is_driver_atomic(pooled: Any) -> bool:
    """Tell the same for the DBAPI connection under SQLAlchemy, whose own notion of a transaction ignores autocommit."""
    if not getattr(pooled.dbapi_connection, "autocommit", False):
        return True
    driver = pooled.driver_connection
    if hasattr(driver, "is_in_transaction"):
        return bool(driver.is_in_transaction())
    return bool(driver.info.transaction_status)


def _in_paramstyle(statement: Statement, connection: Any) -> str:
    return statement.with_dollars if "numeric" in connection.dialect.paramstyle else statement.with_percents
