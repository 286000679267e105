"""`Retry-After`, in both forms (RFC 9110, 10.2.3). Pure, no I/O."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

__all__ = ["LONGEST_SECONDS", "retry_after_seconds"]

LONGEST_SECONDS = 24 * 3600
_DELAY = re.compile(r"[0-9]{1,10}", re.ASCII)
_DATE = re.compile(r"[A-Za-z]{3,9},? [A-Za-z0-9 :-]+", re.ASCII)
_BELIEVABLE = timedelta(days=1)


def retry_after_seconds(value: str | None, *, date: str | None, now: datetime) -> int | None:
    """Return how many seconds to wait, from 0 to 24 h, or None when `value` says nothing.

    `date` is the answer's `Date` header: an HTTP date is meant by the receiver's clock, so that is "now" when it
    is within a day of this clock's `now`.
    """
    text = (value or "").strip()
    if _DELAY.fullmatch(text):
        return min(int(text), LONGEST_SECONDS)
    until = _http_date(text)
    if until is None:
        return None
    theirs = _http_date((date or "").strip())
    if theirs is not None and abs(theirs - now) <= _BELIEVABLE:
        now = theirs
    return min(max(round((until - now).total_seconds()), 0), LONGEST_SECONDS)


def _http_date(text: str) -> datetime | None:
    if not _DATE.fullmatch(text):  # `parsedate_to_datetime` takes much more than the three forms of RFC 9110
        return None
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
