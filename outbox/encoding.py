"""Payloads as JSON text, digit by digit, refused with the path of what cannot be stored. No I/O here.

What a payload may hold: dict with str keys, list, tuple, str, int, finite float, finite `Decimal`, bool and
None. Everything else (datetime, UUID, bytes, set, dataclasses, models) is refused: how it is spelled is the
application's choice, and receivers depend on it. `JsonText` passes JSON that is encoded already.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any

from outbox.errors import InvalidEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["JsonText", "check_text", "encode_payload"]

MAX_DEPTH = 200  # what common JSON readers take; PostgreSQL alone would take thousands
_NUMERIC_DIGITS = range(-16383, 131072)  # powers of ten that PostgreSQL's numeric can hold
_STR = frozenset({str})
_PLAIN_SCALARS = frozenset({str, int, float, bool, type(None)})
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSTORABLE_ESCAPE = re.compile(  # NUL, or half of a surrogate pair
    r"\\u(?:0000|[dD][89abAB]..(?!\\u[dD][c-fC-F]))|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]"
)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False)  # depth is bounded
_STRING = json.encoder.encode_basestring


@dataclass(frozen=True, slots=True)
class JsonText:
    """A payload that is JSON text already, sent as it is: `JsonText(model.model_dump_json())`.

    PostgreSQL checks its syntax when the event is recorded.
    """

    text: str


def encode_payload(payload: Any, name: str = "payload") -> str:
    """Return `payload` as JSON text.

    Raises:
        InvalidEvent: something in it is no JSON, or none that PostgreSQL can store; names `name` and the path.
    """
    if isinstance(payload, JsonText):
        return _checked_text(payload.text, name)
    try:
        if _is_plain(payload, 0):
            text = _ENCODER.encode(payload)
            if "\\u0000" not in text and (text.isascii() or _LONE_SURROGATE.search(text) is None):
                return text
    except ValueError:  # not finite, or thousands of digits; _pieces says where
        pass
    return "".join(_pieces(payload, f"{name}: $", 0))


def check_text(name: str, text: str) -> None:
    """Check that PostgreSQL can store `text`.

    Raises:
        InvalidEvent: it holds a NUL or half of a surrogate pair; names `name`.
    """
    if "\0" in text:
        raise InvalidEvent(f"{name}: NUL (\\u0000) is not storable in PostgreSQL; remove or encode it")
    if not text.isascii() and _LONE_SURROGATE.search(text):
        raise InvalidEvent(f"{name}: a lone surrogate is no text; decode the bytes it came from properly")


def _is_plain(value: Any, depth: int) -> bool:
    """Tell whether json.dumps spells `value` as `_pieces` would, bar what its text shows afterwards."""
    kind = type(value)
    if kind is dict:
        if not _STR.issuperset(map(type, value)):
            return False
        values = value.values()
    elif kind is list or kind is tuple:
        values = value
    else:
        return kind in _PLAIN_SCALARS
    if _PLAIN_SCALARS.issuperset(map(type, values)):  # most containers end here, without a call for each value
        return depth <= MAX_DEPTH
    return depth < MAX_DEPTH and all(_is_plain(item, depth + 1) for item in values)


def _pieces(value: Any, path: str, depth: int) -> Iterator[str]:
    """Yield the JSON text of `value`, the exact and slow way."""
    if depth > MAX_DEPTH:
        raise InvalidEvent(f"{path[:100]}...: nested deeper than {MAX_DEPTH} levels; flatten it")
    match value:
        case None | bool() | int() | float() | Decimal():
            yield _number(value, path)
        case str():
            yield _string(value, path)
        case dict():
            yield "{"
            for position, (key, item) in enumerate(value.items()):
                step = _step(key, path)
                yield f"{', ' if position else ''}{_string(key, step)}: "
                yield from _pieces(item, step, depth + 1)
            yield "}"
        case list() | tuple() if not hasattr(value, "_fields"):
            yield "["
            for position, item in enumerate(value):
                yield ", " if position else ""
                yield from _pieces(item, f"{path}[{position}]", depth + 1)
            yield "]"
        case _:
            raise InvalidEvent(f"{path}: {type(value).__qualname__} is not JSON; {_remedy(value)}")


def _number(value: float | Decimal | None, path: str) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return _integer(value, path)
        case float():
            if isfinite(value):
                return float.__repr__(value)
        case Decimal():
            if value.is_finite() and (not value or value.adjusted() in _NUMERIC_DIGITS):
                return str(value)
    raise InvalidEvent(
        f"{path}: {type(value).__name__} is not finite, or out of the range of PostgreSQL's numeric;"
        " JSON has no such number, pass None or text"
    )


def _integer(value: int, path: str) -> str:
    try:
        return int.__repr__(value)
    except ValueError as error:  # sys.set_int_max_str_digits
        raise InvalidEvent(f"{path}: an integer of thousands of digits is not supported; pass text") from error


def _string(value: str, path: str) -> str:
    check_text(path, value)
    return _STRING(value)


def _step(key: Any, path: str) -> str:
    if not isinstance(key, str):
        raise InvalidEvent(f"{path}: a key is {type(key).__qualname__}, not str; JSON would rename it")
    return f"{path}.{key}" if _WORD.fullmatch(key) else f"{path}.{json.dumps(key[:100])}"


def _remedy(value: Any) -> str:
    match type(value).__name__:
        case "datetime" | "date" | "time":
            return "pass value.isoformat()"
        case "UUID":
            return "pass str(value)"
        case "bytes" | "bytearray" | "memoryview":
            return "decode it, or pass base64 text"
        case "set" | "frozenset":
            return "pass a list"
        case _:
            return "pass str, int, float, Decimal, bool, None, list or dict"


def _checked_text(text: object, name: str) -> str:
    if not isinstance(text, str):
        raise InvalidEvent(f"{name}: JsonText holds {type(text).__name__}, not str; decode it")
    check_text(name, text)
    if _UNSTORABLE_ESCAPE.search(text):
        try:
            parsed = json.loads(text, parse_int=Decimal, parse_float=Decimal)
        except ValueError:
            return text  # no JSON: PostgreSQL says where
        except RecursionError:
            raise InvalidEvent(f"{name}: nested deeper than {MAX_DEPTH} levels; flatten it") from None
        encode_payload(parsed, name)
    return text
