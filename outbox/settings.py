"""Everything read from the environment, in one place."""

from __future__ import annotations

import os

from outbox.errors import UsageError

__all__ = ["dsn_setting", "environment_value"]


def environment_value(name: str) -> str | None:
    """Return the environment variable `name`, or None when unset or empty."""
    return os.environ.get(name) or None  # noqa: TID251 - this is the settings module


def dsn_setting(option: str | None) -> str:
    """Return the DSN to use: the `--dsn` option, else `OUTBOX_DSN`.

    Raises:
        UsageError: neither is given; the message names both and `embedded:`.
    """
    dsn = option or environment_value("OUTBOX_DSN")
    if dsn is None:
        raise UsageError(
            "no database given; pass --dsn postgresql://… or set OUTBOX_DSN"
            " (or --dsn embedded: for a private PostgreSQL, extra outbox-relay[embedded])"
        )
    return dsn
