"""Producer headers: which names and values can travel with an event. No I/O here.

The same rules stand in `outbox.header_fault` (SQL), for callers that do not come through Python. They keep a
header from splitting a request, from being sent twice, and from posing as what the relay signs.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from outbox.errors import InvalidEvent

__all__ = ["check_headers", "header_fault"]

MAX_HEADERS: Final = 20
MAX_VALUE_CHARACTERS: Final = 4096
TRACE_HEADERS: Final = frozenset({"traceparent", "tracestate"})
_RESERVED = frozenset({
    "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect", "host",
    "idempotency-key", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "user-agent",
})  # fmt: skip
_RESERVED_PREFIXES = ("webhook-", "proxy-", "ce-")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.ASCII)
_VALUE = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?", re.ASCII)


def check_headers(headers: Mapping[str, str]) -> None:
    """Check producer headers.

    Raises:
        InvalidEvent: one of them cannot be sent; names the header, never its value.
    """
    if not isinstance(headers, Mapping):
        raise InvalidEvent(f"headers: is {type(headers).__name__}, not a dict of str; pass {{}} for none")
    if len(headers.keys() - TRACE_HEADERS) > MAX_HEADERS:
        raise InvalidEvent(f"headers: more than {MAX_HEADERS} were given; move data into the payload")
    for name, value in headers.items():
        fault = header_fault(name, value)
        if fault is not None:
            raise InvalidEvent(f"headers: {_shown(name)} {fault}")
    name, uses = Counter(name.lower() for name in headers).most_common(1)[0] if headers else ("", 0)
    if uses > 1:
        raise InvalidEvent(f"headers: {_shown(name)} is given more than once; header names ignore case")


def header_fault(name: object, value: object) -> str | None:
    """Return why this header cannot be sent, to be read after its name, or None."""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        return "is not a header name; use up to 100 letters, digits and hyphens"
    if name.lower() in _RESERVED or name.lower().startswith(_RESERVED_PREFIXES):
        return "is set by the relay and reserved; choose another name"
    return _value_fault(value)


def _value_fault(value: object) -> str | None:
    if not isinstance(value, str):
        return f"has a value of type {type(value).__name__}; give a str"
    if len(value) > MAX_VALUE_CHARACTERS:
        return f"has a value longer than {MAX_VALUE_CHARACTERS} characters; move it into the payload"
    if "\0" in value:
        return "has a value with NUL (\\u0000), which is not storable in PostgreSQL; remove or encode it"
    if _VALUE.fullmatch(value) is None:
        return "has a value with other characters than visible ASCII and inner spaces; encode it"
    return None


def _shown(name: object) -> str:
    return json.dumps(name[:100]) if isinstance(name, str) else repr(type(name).__name__)
