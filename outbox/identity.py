"""Whether this database is the one the outbox was installed in, or a copy of it (restored, cloned, upgraded).

A copy remembers deliveries as open that its original has delivered since: sending from both would repeat them, and
sending from a test copy would reach real receivers. So relays refuse until somebody adopts the copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outbox.errors import RestoredCopy
from outbox.rows import named_row

if TYPE_CHECKING:
    import psycopg

__all__ = ["adopt", "check_identity", "describe_copy"]


def describe_copy(connection: psycopg.Connection[Any]) -> str | None:
    """Return in what this database differs from the one the outbox was installed in, or None when it is the same."""
    row = named_row(connection, "read_identity")
    if row is None:
        return None
    if row.installed_system != row.this_system:
        return f"installed in cluster {row.installed_system}, this is cluster {row.this_system}"
    if row.installed_database != row.this_database:
        return (
            f"installed in database oid {row.installed_database}, this is oid {row.this_database} of the same cluster"
        )
    return None


def check_identity(connection: psycopg.Connection[Any]) -> None:
    """Refuse a copy.

    Raises:
        RestoredCopy: this database is a copy of the one the outbox was installed in; says in what it differs.
    """
    if (difference := describe_copy(connection)) is not None:
        raise RestoredCopy(
            f"this database is a copy ({difference}), so nothing is sent from it;"
            " if it is meant to send, run `outbox adopt`"
        )


def adopt(connection: psycopg.Connection[Any]) -> bool:
    """Let relays send from this copy from now on; return whether it was one."""
    return bool(named_row(connection, "adopt_database").adopted)
