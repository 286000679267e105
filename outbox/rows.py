"""Runs the statements of `outbox/queries` on a connection; values by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg.rows import namedtuple_row

from outbox.queries import query

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg

__all__ = ["named_row", "named_rows"]


def named_rows(
    connection: psycopg.Connection[Any], name: str, parameters: Mapping[str, Any] | None = None
) -> list[Any]:
    """Return the rows of the statement `name`, with values by name."""
    with connection.cursor(row_factory=namedtuple_row) as cursor:
        return cursor.execute(query(name), parameters).fetchall()


def named_row(connection: psycopg.Connection[Any], name: str, parameters: Mapping[str, Any] | None = None) -> Any:
    """Return the one row of the statement `name`, or None."""
    with connection.cursor(row_factory=namedtuple_row) as cursor:
        return cursor.execute(query(name), parameters).fetchone()
