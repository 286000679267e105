"""Destinations as a file, `outbox.toml`: what it says, and what must change for the database to say the same. No I/O.

[destinations.shop]
sink = "webhook"
events = ["order.*"]
url = "https://shop.example/hooks"     # every other key is a setting of the sink
secret = "env:SHOP_SECRET"
[destinations.shop.policy]
max_attempts = 10
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from datetime import date, time
from typing import TYPE_CHECKING, Any, Literal

from outbox.errors import InvalidSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from outbox.model import Destination

__all__ = ["Change", "Difference", "Wanted", "differences", "parse_configuration"]

OWN_KEYS = frozenset({"sink", "events", "policy"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """One destination as the file says it."""

    name: str
    sink: str
    event_types: tuple[str, ...]
    settings: Mapping[str, Any]
    policy: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that differs; None where it is not set. Values of `settings` may be secrets: mask before showing."""

    part: Literal["sink", "events", "settings", "policy"]
    key: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be done with one destination."""

    verb: Literal["add", "change", "remove", "keep"]
    name: str
    wanted: Wanted | None = None
    found: Destination | None = None
    differences: tuple[Difference, ...] = field(default=())


def parse_configuration(text: str, path: str) -> list[Wanted]:
    """Return the destinations of a file; `path` is for messages.

    Raises:
        InvalidSettings: it is no TOML, or an entry has the wrong shape; names the place and the remedy.
    """
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # not only TOMLDecodeError: numbers too long, tables too deep
        raise InvalidSettings(f"{path} is not TOML: {error}") from None
    unknown = sorted(document.keys() - {"destinations"})
    if unknown:
        raise InvalidSettings(f"{path}: {unknown[0]!r} is not known; write [destinations.NAME]")
    tables = document.get("destinations", {})
    if not isinstance(tables, dict):
        raise InvalidSettings(f"{path}: destinations is not a table; write [destinations.NAME]")
    return [_wanted(name, table, f"{path}: destinations.{name}") for name, table in tables.items()]


def _wanted(name: str, table: Any, where: str) -> Wanted:
    if not isinstance(table, dict):
        raise InvalidSettings(f"{where} is not a table; write [destinations.{name}]")
    sink, events, policy = table.get("sink"), table.get("events", []), table.get("policy", {})
    if not isinstance(sink, str):
        raise InvalidSettings(f'{where}: which sink? write sink = "webhook"')
    if not isinstance(events, list) or not all(isinstance(event, str) for event in events):
        raise InvalidSettings(f'{where}.events is not a list of types; write events = ["order.*"]')
    if not isinstance(policy, dict):
        raise InvalidSettings(f"{where}.policy is not a table; write [destinations.{name}.policy]")
    settings = {key: value for key, value in table.items() if key not in OWN_KEYS}
    for key in sorted({**settings, **policy}):
        if _has_date({**settings, **policy}[key]):
            raise InvalidSettings(f"{where}.{key} is a date or a time; put it into quotes")
    return Wanted(name, sink, tuple(events), settings, policy)


def _has_date(value: Any) -> bool:
    """Tell whether TOML read a date or time anywhere in `value`: JSON has none."""
    if isinstance(value, dict):
        return any(_has_date(one) for one in value.values())
    if isinstance(value, list):
        return any(_has_date(one) for one in value)
    return isinstance(value, date | time)


def differences(wanted: Iterable[Wanted], found: Iterable[Destination], *, prune: bool) -> list[Change]:
    """Return what is to be done, in the order of names; what the file does not name goes only with `prune`.

    Raises:
        InvalidSettings: the file wants another sink for a destination that has one.
    """
    wanted_by_name = {one.name: one for one in wanted}
    found_by_name = {one.name: one for one in found}
    return [
        _change(name, wanted_by_name.get(name), found_by_name.get(name), prune=prune)
        for name in sorted(wanted_by_name.keys() | found_by_name.keys())
    ]


def _change(name: str, wanted: Wanted | None, found: Destination | None, *, prune: bool) -> Change:
    if wanted is None:
        return Change("remove" if prune else "keep", name, found=found)
    if found is None:
        return Change("add", name, wanted, differences=tuple(_differing(wanted, None)))
    if wanted.sink != found.sink:
        raise InvalidSettings(
            f"destination {name} has the sink {found.sink}, the file wants {wanted.sink}: what is open was meant for"
            f" the old one; give the new one another name, or first `outbox destinations remove {name}`"
        )
    differing = tuple(_differing(wanted, found))
    return Change("change" if differing else "keep", name, wanted, found, differing)


def _differing(wanted: Wanted, found: Destination | None) -> Iterator[Difference]:
    if found is None:
        yield Difference("sink", "", None, wanted.sink)
    events = None if found is None else list(found.event_types)
    if events != list(wanted.event_types):
        yield Difference("events", "", events, list(wanted.event_types))
    yield from _entries("settings", {} if found is None else found.settings, wanted.settings)
    yield from _entries("policy", {} if found is None else found.policy, wanted.policy)


def _entries(
    part: Literal["settings", "policy"], before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[Difference]:
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            yield Difference(part, key, before.get(key), after.get(key))
