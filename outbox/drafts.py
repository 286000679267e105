"""Drafts: events that were checked and encoded, ready to be sent to the database. No I/O here."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from outbox.encoding import check_text, encode_payload
from outbox.errors import InvalidEvent
from outbox.headers import TRACE_HEADERS, check_headers
from outbox.tracing import trace_headers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from outbox.model import Event

__all__ = ["Draft", "draft_event"]

_TYPE = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*", re.ASCII)
_MAX_TYPE_CHARACTERS = 200
_MAX_KEY_CHARACTERS = 255
_MAX_DELAY_SECONDS = 10 * 365 * 86400.0
_LAST_YEAR = 9998  # so that no offset turns a stored time into one that datetime cannot show


class Draft(NamedTuple):
    """An event as text, the form that every driver sends alike; `due_at` is ISO 8601 with an offset."""

    type: str
    payload: str
    key: str | None
    idempotency_key: str | None
    headers: str
    due_at: str | None
    delay_seconds: float | None
    destination: str | None


def draft_event(event: Event) -> Draft:
    """Return `event` checked and encoded, with the caller's trace context among its headers.

    Raises:
        InvalidEvent: the database would refuse it; names the argument or JSON path, never a payload.
    """
    return Draft(
        type=_type(event.type),
        payload=encode_payload(event.payload),
        key=_key("key", event.key),
        idempotency_key=_key("idempotency_key", event.idempotency_key),
        headers=_headers(event.headers),
        due_at=_due_at(event),
        delay_seconds=_delay_seconds(event.delay),
        destination=_destination(event.destination),
    )


def _type(type_: object) -> str:
    if not isinstance(type_, str) or _TYPE.fullmatch(type_) is None:
        raise InvalidEvent(
            f"type: {_shown(type_)} is not dotted words;"
            " write letters, digits and underscores joined by dots, like order.paid"
        )
    if len(type_) > _MAX_TYPE_CHARACTERS:
        raise InvalidEvent(f"type: {len(type_)} characters are too many; use at most {_MAX_TYPE_CHARACTERS}")
    return _plain(type_)


def _key(name: str, key: object) -> str | None:
    if key is None:
        return None
    if not isinstance(key, str):
        raise InvalidEvent(f"{name}: is {type(key).__name__}, not str; pass str(value)")
    if not 1 <= len(key) <= _MAX_KEY_CHARACTERS:
        raise InvalidEvent(f"{name}: {len(key)} characters; use 1 to {_MAX_KEY_CHARACTERS}, or None")
    check_text(name, key)
    return _plain(key)


def _destination(destination: object) -> str | None:
    if destination is None:
        return None
    if not isinstance(destination, str):
        raise InvalidEvent(f"destination: is {type(destination).__name__}, not the name of a destination")
    check_text("destination", destination)
    return _plain(destination)


def _headers(headers: Mapping[str, str]) -> str:
    check_headers(headers)
    captured = trace_headers()
    if captured and not any(name.lower() in TRACE_HEADERS for name in headers):
        headers = {**headers, **captured}
    return json.dumps(dict(headers)) if headers else "{}"


def _due_at(event: Event) -> str | None:
    due_at: object = event.due_at
    if due_at is None:
        return None
    if event.delay is not None:
        raise InvalidEvent("due_at: is given together with delay; give one of them")
    if not isinstance(due_at, datetime) or due_at.utcoffset() is None:
        raise InvalidEvent("due_at: is not a datetime with a time zone; use datetime.now(UTC) + timedelta(...)")
    if due_at.year > _LAST_YEAR:
        raise InvalidEvent(f"due_at: is after the year {_LAST_YEAR}; give a moment that comes")
    return due_at.isoformat()


def _delay_seconds(delay: object) -> float | None:
    if delay is None:
        return None
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= _MAX_DELAY_SECONDS:
        raise InvalidEvent(f"delay: {delay!r} is not a timedelta, or seconds, from 0 to ten years")
    return float(seconds)


def _plain(text: str) -> str:
    """Return the text itself: an enum that is a str writes its name when it is formatted."""
    return str.__str__(text)


def _shown(value: object) -> str:
    return json.dumps(value[:100]) if isinstance(value, str) else type(value).__name__
