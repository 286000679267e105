"""Opens connections for the commands and the relay; what an application records on is its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from outbox.errors import DatabaseUnreachable, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["aconnect", "connect", "resolve_dsn"]

EMBEDDED = "embedded:"
CONNECT_SECONDS = 10

_SERVERS: dict[str, str] = {}


def connect(dsn: str, **options: Any) -> psycopg.Connection[Any]:
    """Return an autocommit connection to `dsn`; `options` are connection parameters or psycopg's own.

    Raises:
        UsageError: the DSN cannot be read; it is not shown, it may hold a password.
        DatabaseUnreachable: no server answers, or it refuses; names host, database, cause and remedy.
    """
    parameters = _parameters(dsn)
    try:
        return psycopg.connect(resolve_dsn(dsn), autocommit=True, **_with_defaults(parameters, options))
    except psycopg.OperationalError as error:
        raise _unreachable(parameters, error) from None


async def aconnect(dsn: str, **options: Any) -> psycopg.AsyncConnection[Any]:
    """Return an autocommit connection for asyncio; arguments and errors as with `connect`."""
    parameters = _parameters(dsn)
    try:
        return await psycopg.AsyncConnection.connect(
            resolve_dsn(dsn), autocommit=True, **_with_defaults(parameters, options)
        )
    except psycopg.OperationalError as error:
        raise _unreachable(parameters, error) from None


def resolve_dsn(dsn: str) -> str:
    """Return `dsn`, or for `embedded:[PATH]` the DSN of the embedded server there, started if it is not running.

    A server this process started is shared with later ones and stopped when the last of them exits.
    """
    if not dsn.startswith(EMBEDDED):
        return dsn
    if dsn not in _SERVERS:
        from outbox.embedded import start_shared

        _SERVERS[dsn] = start_shared(dsn.removeprefix(EMBEDDED) or None)
    return _SERVERS[dsn]


def _parameters(dsn: str) -> Mapping[str, Any]:
    if dsn.startswith(EMBEDDED):
        return {"host": "embedded server", "dbname": "postgres"}
    try:
        return conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        raise UsageError(
            "the DSN cannot be read (not shown: it may hold a password);"
            " write postgresql://user@host:5432/database or host=… dbname=… user=…"
        ) from None


def _with_defaults(parameters: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    defaults = {"application_name": "outbox", "connect_timeout": CONNECT_SECONDS}
    # A pooler in transaction mode lends another server session to each transaction, without what the last one prepared.
    always = {"prepare_threshold": None}
    return {name: value for name, value in defaults.items() if name not in parameters} | always | dict(options)


def _unreachable(parameters: Mapping[str, Any], error: psycopg.OperationalError) -> DatabaseUnreachable:
    host = parameters.get("host") or parameters.get("hostaddr") or "local socket"
    port = parameters.get("port")
    cause = _cause(str(error), str(parameters.get("password") or ""))
    return DatabaseUnreachable(
        f"no connection to database {parameters.get('dbname') or 'of the user name'!r}"
        f" on {host}{f':{port}' if port else ''}: {cause};"
        " check that the server runs and that --dsn or OUTBOX_DSN is right"
    )


def _cause(text: str, password: str) -> str:
    """Return the driver's reason in one line, without the password."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    cause = " ".join(lines) or "the server closed the connection without a word"
    return cause.replace(password, "***") if password else cause
