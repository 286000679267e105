"""Says in one line what ended a command, with the remedy and the exit code. No I/O here."""

from __future__ import annotations

from typing import Final

import psycopg

from outbox.errors import DatabaseUnreachable, OutboxError, SchemaMismatch

__all__ = ["complaint"]

_REMEDIES: Final = {
    "42501": "connect as another role, or grant outbox_reader for looking, outbox_relay for sending and repairing",
    "25006": "this is a standby, or was made read-only: connect to the primary",
    "55P03": "somebody else holds the lock; run it again",
    "57014": "statement_timeout of this role is too short for it; run it again, or raise it",
}
_SCHEMA: Final = frozenset({"3F000", "42P01", "42703", "42883", "42704"})
"""A schema, table, column, function or type is not there."""

_GONE: Final = ("08", "57P")
"""How the SQLSTATEs begin of connections that broke, and of servers that shut down."""


def complaint(error: Exception) -> tuple[str, int] | None:
    """Return the line and the exit code for an error that users may meet, or None for a fault of this program."""
    match error:
        case OutboxError():
            return str(error), error.exit_code
        case psycopg.Error():
            line, code = _of_database(error)
            return "; ".join([line, *getattr(error, "__notes__", ())]), code
        case LookupError() if type(error) is LookupError:
            return str(error), 1
        case _:
            return None


def _of_database(error: psycopg.Error) -> tuple[str, int]:
    line = error.diag.message_primary or (str(error).strip().splitlines() or [type(error).__name__])[0]
    state = error.sqlstate or ""
    if isinstance(error, psycopg.OperationalError) and (not state or state.startswith(_GONE)):
        return f"the database went away: {line}", DatabaseUnreachable.exit_code
    if state in _SCHEMA:
        return f"{line}: the schema is not whole; see `outbox doctor`, run `outbox migrate`", SchemaMismatch.exit_code
    if state in _REMEDIES and not getattr(error, "__notes__", ()):
        return f"{line}; {_REMEDIES[state]}", 1
    return line, 1
