"""Looks for a working database driver before a command needs it. Imports nothing but the standard library."""

from __future__ import annotations

import sys

from outbox.errors import UsageError

__all__ = ["require_driver"]


def require_driver(command: str) -> None:
    """End the process with one line when psycopg finds neither its binary implementation nor the system's libpq."""
    try:
        import psycopg  # noqa: F401 - importing it is the question
    except ImportError:
        sys.stderr.write(f"{command}: psycopg finds no libpq here; run pip install 'outbox-relay[binary]'\n")
        sys.exit(UsageError.exit_code)
