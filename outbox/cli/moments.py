"""Reads times from the command line: with their offset, so that nobody's time zone is guessed."""

from __future__ import annotations

from datetime import datetime

from outbox.errors import UsageError

__all__ = ["parse_moment"]


def parse_moment(text: str) -> datetime:
    """Return an ISO 8601 time.

    Raises:
        UsageError: it is none, or has no offset.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a time; write 2026-12-01T09:30:00+00:00") from None
    if moment.tzinfo is None:
        raise UsageError(f"{text!r} has no offset from UTC; write 2026-12-01T09:30:00+00:00")
    return moment
