"""The delivery policy of a destination: when to try again, when to give up. Pure functions, no I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from outbox.durations import format_duration, parse_duration
from outbox.errors import InvalidSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Policy", "parse_policy", "wait_seconds"]

MAX_JITTER = 0.2
_RATE = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)/(?P<unit>s|m|h)", re.ASCII)
_RATE_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Policy:
    """How a destination is delivered to. All durations are seconds.

    The wait after the n-th failed try is `schedule[n-1]` (the last step repeats), or without a schedule
    `base * factor ** (n - 1)`, at most `cap`.
    """

    schedule: tuple[float, ...] | None = None
    base: float = 1.0
    factor: float = 2.0
    cap: float = 3600.0
    jitter: float = MAX_JITTER
    max_attempts: int = 20
    max_age: float | None = None
    timeout: float = 20.0
    max_in_flight: int | None = None
    rate_per_second: float | None = None
    on_dead: Literal["skip", "block"] = "skip"


def wait_seconds(policy: Policy, tries: int, *, retry_after: float | None, spread: float) -> float:
    """Return the seconds to wait after failed try number `tries` (from 1).

    `spread` in [0, 1) places the wait within the jitter, which only ever adds: what failed together is not
    retried together, and nothing comes before the receiver's `retry_after` seconds.
    """
    return max(_step(policy, tries), retry_after or 0.0) * (1 + policy.jitter * spread)


def _step(policy: Policy, tries: int) -> float:
    if policy.schedule is not None:
        return policy.schedule[min(tries, len(policy.schedule)) - 1]
    if policy.factor <= 1 or policy.base >= policy.cap:
        return min(policy.base, policy.cap)
    try:
        return min(policy.base * policy.factor ** (tries - 1), policy.cap)
    except OverflowError:  # factor ** 1100 is past every float, and so past the cap
        return policy.cap


def parse_policy(values: Mapping[str, Any], default: Policy) -> Policy:
    """Return `default` with `values` (strings, numbers, lists, as stored or typed) laid over it.

    Raises:
        InvalidSettings: a name is unknown or a value makes no sense; names the field and the remedy.
    """
    unknown = sorted(set(values) - set(_PARSERS))
    if unknown:
        raise InvalidSettings(f"policy has no setting {unknown[0]!r}; it knows {', '.join(sorted(_PARSERS))}")
    parsed = {_FIELDS.get(name, name): _PARSERS[name](value, f"policy.{name}") for name, value in values.items()}
    if "schedule" in parsed and "max_attempts" not in parsed:
        parsed["max_attempts"] = len(parsed["schedule"]) + 1
    if {"base", "factor", "cap"} & parsed.keys() and "schedule" not in parsed:
        parsed["schedule"] = None
    policy = replace(default, **parsed)
    if policy.schedule is None and policy.cap < policy.base:
        raise InvalidSettings(
            f"policy.cap ({format_duration(policy.cap)}) is shorter than policy.base"
            f" ({format_duration(policy.base)}); raise cap or lower base"
        )
    return policy


def _positive_duration(value: object, name: str) -> float:
    seconds = parse_duration(value, name)
    if seconds <= 0:
        raise InvalidSettings(f"{name}: {value!r} would retry without a pause; give at least 1ms")
    return seconds


def _optional_duration(value: object, name: str) -> float | None:
    return None if value is None else _positive_duration(value, name)


def _schedule(value: object, name: str) -> tuple[float, ...]:
    steps = value.split(",") if isinstance(value, str) else value
    if not isinstance(steps, list | tuple) or not steps:
        raise InvalidSettings(f'{name}: {value!r} is not a list of durations; write ["5s", "5m", "30m"]')
    return tuple(_positive_duration(step, f"{name}[{position}]") for position, step in enumerate(steps))


def _number(value: object, name: str, low: float, high: float) -> float:
    try:
        number = float(cast("Any", value))
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if isinstance(value, bool) or not low <= number <= high:
        raise InvalidSettings(f"{name}: {value!r} is not a number from {low:g} to {high:g}")
    return number


def _whole_number(value: object, name: str) -> int:
    number = _number(value, name, 1, 1_000_000)
    if number != int(number):
        raise InvalidSettings(f"{name}: {value!r} is not a whole number")
    return int(number)


def _optional_whole_number(value: object, name: str) -> int | None:
    return None if value is None else _whole_number(value, name)


def _rate(value: object, name: str) -> float | None:
    if value is None:
        return None
    found = _RATE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or not 0 < float(found["number"]) < float("inf"):
        raise InvalidSettings(f"{name}: {value!r} is not a rate; write 10/s, 300/m or 1000/h")
    return float(found["number"]) / _RATE_SECONDS[found["unit"]]


def _on_dead(value: object, name: str) -> str:
    if value not in ("skip", "block"):  # a tuple: a list has no hash
        raise InvalidSettings(f"{name}: {value!r} is not known; write skip or block")
    return str(value)


_FIELDS = {"rate": "rate_per_second"}
_PARSERS: dict[str, Any] = {
    "schedule": _schedule,
    "base": _positive_duration,
    "factor": lambda value, name: _number(value, name, 1, 1000),
    "cap": _positive_duration,
    "jitter": lambda value, name: _number(value, name, 0, MAX_JITTER),
    "max_attempts": _whole_number,
    "max_age": _optional_duration,
    "timeout": _positive_duration,
    "max_in_flight": _optional_whole_number,
    "rate": _rate,
    "on_dead": _on_dead,
}
