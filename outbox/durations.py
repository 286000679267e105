"""Durations as people write them: `0.2s`, `5m`, `30m`, `24h`, `5d`."""

from __future__ import annotations

import math
import re

from outbox.errors import InvalidSettings

__all__ = ["format_duration", "parse_duration"]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>ms|s|m|h|d)", re.ASCII)
_LONGEST_SECONDS = 366 * 86400.0


def parse_duration(value: object, name: str) -> float:
    """Return the seconds of `value`: a string like `5m`, or a number of seconds.

    Raises:
        InvalidSettings: `value` is no duration, negative, not finite, or longer than a year; names `name`.
    """
    match value:
        case bool():
            seconds = math.nan
        case int() | float():
            seconds = float(value) if abs(value) <= _LONGEST_SECONDS else math.nan  # no float holds every int
        case str() if found := _DURATION.fullmatch(value.strip()):
            seconds = float(found["number"]) * _UNITS[found["unit"]]
        case _:
            seconds = math.nan
    if not 0 <= seconds <= _LONGEST_SECONDS:  # false for nan, too
        raise InvalidSettings(f"{name}: {value!r} is not a duration; write 0.2s, 5m, 24h or 5d (at most 366d)")
    return seconds


def format_duration(seconds: float) -> str:
    """Return `seconds` as people write it, in the largest unit that keeps it short: `90s` is `1.5m`."""
    for unit in ("d", "h", "m", "s"):
        if seconds >= _UNITS[unit]:
            return f"{_short(seconds / _UNITS[unit])}{unit}"
    return f"{_short(seconds * 1000)}ms" if seconds else "0s"


def _short(number: float) -> str:
    """Return three digits, never as an exponent: 999.9 is 1000."""
    return f"{float(f'{number:.3g}'):g}"
