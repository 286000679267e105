"""Destinations in the database: add, change, pause, resume, remove. What the sink thinks of settings is asked first."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import psycopg

from outbox.encoding import encode_payload
from outbox.errors import DestinationChanged, InvalidEvent, InvalidSettings, UsageError
from outbox.model import Destination
from outbox.plugins import load_sink
from outbox.policy import Policy, parse_policy
from outbox.queries import query
from outbox.rows import named_row, named_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from outbox.configuration import Change

__all__ = [
    "add_destination",
    "apply_changes",
    "change_destination",
    "change_settings",
    "check_destination",
    "check_name",
    "find_destination",
    "list_destinations",
    "pause_destination",
    "remove_destination",
    "resume_destination",
    "resuming",
]

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
PATTERN = re.compile(r"\*|[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*(\.\*)?")
RESUME_BATCH = 1000


def list_destinations(connection: psycopg.Connection[Any]) -> list[Destination]:
    """Return all destinations that are not removed, by name."""
    return [Destination.from_row(row) for row in named_rows(connection, "list_destinations")]


def find_destination(connection: psycopg.Connection[Any], name: str) -> Destination:
    """Return the destination `name`.

    Raises:
        UsageError: there is none; names those that exist.
    """
    found = list_destinations(connection)
    for destination in found:
        if destination.name == name:
            return destination
    known = ", ".join(destination.name for destination in found) or "none yet; add one with `outbox destinations add`"
    raise UsageError(f"no destination {name!r}; known: {known}")


def check_name(connection: psycopg.Connection[Any], name: str) -> None:
    """Refuse a name that no destination has, or had before it was removed.

    Raises:
        UsageError: names those that exist.
    """
    names = [row.name for row in named_rows(connection, "list_names")]
    if name not in names:
        raise UsageError(f"no destination {name!r}; known: {', '.join(names) or 'none yet'}")


def add_destination(
    connection: psycopg.Connection[Any],
    name: str,
    *,
    sink: str,
    event_types: Sequence[str],
    settings: Mapping[str, Any],
    policy: Mapping[str, Any],
) -> None:
    """Add a destination; events recorded from now on are routed to it.

    Raises:
        UsageError: the name is taken, or a name, pattern, setting or policy makes no sense; nothing was changed.
    """
    check_destination(name, sink, event_types, settings, policy)
    parameters = {
        "name": name,
        "sink": sink,
        "event_types": list(event_types),
        "settings": json.dumps(settings),
        "policy": json.dumps(policy),
    }
    try:
        connection.execute(query("add_destination"), parameters)
    except psycopg.errors.UniqueViolation:
        raise UsageError(
            f"destination {name!r} exists; change it with `outbox destinations set {name}`, or remove it first"
        ) from None


def change_destination(
    connection: psycopg.Connection[Any],
    name: str,
    *,
    event_types: Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    policy: Mapping[str, Any] | None = None,
) -> None:
    """Lay `settings` and `policy` over those of a destination (a value None removes the entry) and set its types.

    Raises:
        UsageError: there is no such destination, or the result makes no sense; nothing was changed.
        DestinationChanged: somebody else changed it meanwhile; nothing was changed.
    """
    found = find_destination(connection, name)
    types = found.event_types if event_types is None else tuple(event_types)
    merged = _merged(found.settings, settings or {})
    merged_policy = _merged(found.policy, policy or {})
    check_destination(name, found.sink, types, merged, merged_policy)
    _store(connection, found, types, merged, merged_policy)


def change_settings(connection: psycopg.Connection[Any], destination: Destination, settings: Mapping[str, Any]) -> None:
    """Store `settings` in place of those of `destination`, as it was read.

    Raises:
        DestinationChanged: somebody else changed it meanwhile; nothing was changed.
    """
    _store(connection, destination, destination.event_types, settings, destination.policy)


def apply_changes(connection: psycopg.Connection[Any], changes: Iterable[Change]) -> None:
    """Make the database say what a file says: all of it, or nothing.

    Raises:
        UsageError: a wanted destination makes no sense.
        DestinationChanged: somebody else changed one meanwhile.
    """
    with connection.transaction():
        for change in changes:
            _apply(connection, change)


def _apply(connection: psycopg.Connection[Any], change: Change) -> None:
    wanted = change.wanted
    if change.verb == "remove":
        remove_destination(connection, change.name)
    elif wanted is None or change.verb == "keep":
        return
    elif change.found is None:
        add_destination(
            connection,
            wanted.name,
            sink=wanted.sink,
            event_types=wanted.event_types,
            settings=wanted.settings,
            policy=wanted.policy,
        )
    else:
        check_destination(wanted.name, wanted.sink, wanted.event_types, wanted.settings, wanted.policy)
        _store(connection, change.found, wanted.event_types, wanted.settings, wanted.policy)


def pause_destination(connection: psycopg.Connection[Any], name: str, reason: str | None) -> None:
    """Hold the deliveries of a destination until it is resumed; what is under way finishes (held-not-lost)."""
    found = find_destination(connection, name)
    connection.execute(query("pause_destination"), {"id": found.id, "reason": reason})


def resume_destination(connection: psycopg.Connection[Any], name: str) -> int:
    """Let a destination go on, whatever held it, and return how many held deliveries are due again."""
    return max(resuming(connection, name), default=0)


def resuming(connection: psycopg.Connection[Any], name: str) -> Iterator[int]:
    """Let a destination go on, whatever held it; yield how many held deliveries are due again after each batch.

    A removed one comes back, unless its name is another's by now. The deliveries get a fresh due time, in their
    order, since relays look ahead of what they have walked. Interrupted, the rest is found by the relays' sweeps.
    """
    destination_id = _resume(connection, name)
    released, last = 0, 0
    while True:
        batch = named_row(connection, "release_held", {"id": destination_id, "after_id": last, "batch": RESUME_BATCH})
        if not batch.released:
            return
        released, last = released + batch.released, batch.last_id
        yield released


def _resume(connection: psycopg.Connection[Any], name: str) -> int:
    """Make the destination `name` active and return its id."""
    if all(destination.name != name for destination in list_destinations(connection)):
        restored = named_row(connection, "restore_destination", {"name": name})
        if restored is not None:
            return int(restored.id)
    found = find_destination(connection, name)
    connection.execute(query("resume_destination"), {"id": found.id})
    return found.id


def remove_destination(connection: psycopg.Connection[Any], name: str) -> int:
    """Remove a destination and return how many open deliveries it leaves: held until they are discarded."""
    found = find_destination(connection, name)
    return int(named_row(connection, "remove_destination", {"id": found.id}).left_open)


def _store(
    connection: psycopg.Connection[Any],
    found: Destination,
    event_types: Sequence[str],
    settings: Mapping[str, Any],
    policy: Mapping[str, Any],
) -> None:
    parameters = {
        "id": found.id,
        "event_types": list(event_types),
        "settings": json.dumps(settings),
        "policy": json.dumps(policy),
        "version": found.version,
    }
    if not connection.execute(query("change_destination"), parameters).rowcount:
        raise DestinationChanged(
            f"destination {found.name!r} was changed by somebody else just now; look at it and run this again"
        )


def check_destination(
    name: str, sink: str, event_types: Sequence[str], settings: Mapping[str, Any], policy: Mapping[str, Any]
) -> None:
    """Refuse what could not work, before it is stored.

    Raises:
        UsageError: a name, pattern, setting or policy makes no sense; says which, and the remedy.
    """
    if not NAME.fullmatch(name):
        raise UsageError(f"destination name {name!r}: use up to 63 lower-case letters, digits, hyphens and underscores")
    for pattern in event_types:
        if not PATTERN.fullmatch(pattern):
            raise UsageError(f"event pattern {pattern!r}: write *, order.* or order.paid")
    _check_storable(settings, "settings")
    _check_storable(policy, "policy")
    kind = load_sink(sink)
    check = getattr(kind, "check", None)
    if check is not None:
        check(settings)
    parse_policy(policy, getattr(kind, "default_policy", Policy()))


def _check_storable(values: Mapping[str, Any], part: str) -> None:
    """Refuse what JSON has no word for (NaN) or PostgreSQL cannot store (NUL, half of a surrogate pair)."""
    try:
        encode_payload(dict(values), part)
    except InvalidEvent as error:
        raise InvalidSettings(str(error)) from None


def _merged(stored: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**stored, **changes}.items() if value is not None}
