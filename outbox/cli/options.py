"""What the commands have in common on their command lines, and how they connect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from outbox.database import connect
from outbox.migrate import check_schema
from outbox.settings import dsn_setting

if TYPE_CHECKING:
    import psycopg

CONNECT_SECONDS = 4

__all__ = ["Dsn", "Json", "Name", "connected"]

Dsn = Annotated[
    str | None,
    typer.Option("--dsn", help="PostgreSQL, as URI or key=value; else OUTBOX_DSN.", show_default=False),
]
Name = Annotated[str, typer.Argument(help="Name of the destination.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def connected(dsn: str | None, *, with_schema: bool = True) -> psycopg.Connection[Any]:
    """Return a connection; `with_schema` refuses a schema this code cannot work with."""
    given = dsn_setting(dsn)
    # somebody waits at the terminal, or a monitor that has its own time-out
    patience = {} if "connect_timeout" in given else {"connect_timeout": CONNECT_SECONDS}
    connection = connect(given, **patience)
    if with_schema:
        try:
            check_schema(connection)
        except BaseException:
            connection.close()
            raise
    return connection
