"""Which destinations this relay serves, kept up with the database."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from outbox.errors import InvalidSettings
from outbox.model import Destination
from outbox.plugins import load_sink
from outbox.policy import Policy, parse_policy
from relays.targets import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from relays.context import RelayContext
    from relays.sessions import Session
    from relays.settings import RelaySettings
    from relays.sinks import Sink

__all__ = ["Serving"]

log = logging.getLogger("relays.serving")

FLEET_SECONDS = 2.0


class Serving:
    """The served destinations as targets, by id. One sink instance per sink name."""

    def __init__(self, session: Session, settings: RelaySettings, around: Callable[[Sink], Sink] | None = None) -> None:
        self._session = session
        self._around = around
        self._settings = settings
        self._version = ""
        self._fleet_at = 0.0
        self._fleet_size = 1
        self._names: list[str] = []
        self._short_lease: InvalidSettings | None = None
        self._sinks: dict[str, Sink] = {}
        self._complaints: dict[str, str] = {}
        self.targets: dict[int, Target] = {}
        self.context: RelayContext | None = None

    async def refresh(self) -> bool:
        """Reload the destinations if any changed; return whether they did."""
        [row] = await self._session.named_rows("read_destinations_version")
        if row.version == self._version:
            return False
        rows = await self._session.named_rows("list_destinations")
        self._version = row.version
        self._names = [found.name for found in rows]
        served = {}
        for found in rows:
            target = await self._target(found)
            if target is not None:
                served[found.id] = target
        self.targets = served
        self._fleet_at = 0.0
        return True

    async def rank(self, relay_id: int) -> None:
        """Find this relay's place among those alive, every few seconds: its shares of fleet-wide limits follow."""
        now = time.monotonic()
        if now < self._fleet_at:
            return
        self._fleet_at = now + FLEET_SECONDS
        rows = await self._session.named_rows("list_fleet")
        fleet = [(row.id, None if row.destinations is None else frozenset(row.destinations)) for row in rows]
        serving = sum(names is None or bool(names) for _, names in fleet)  # one that has just begun serves nothing yet
        if serving != self._fleet_size:
            self._fleet_size = serving
            log.info("relays that serve: %d; they share max_in_flight and rate of what they serve", serving)
        for target in self.targets.values():
            name = target.destination.name
            ids = [number for number, names in fleet if names is None or name in names]
            if relay_id not in ids:
                ids = sorted([*ids, relay_id])
            target.relays, target.rank = len(ids), ids.index(relay_id)

    def check(self) -> None:
        """Refuse at start what cannot work later.

        Raises:
            InvalidSettings: `--only` names an unknown destination, or `--lease` is too short for one.
        """
        unknown = sorted((self._settings.only or frozenset()).difference(self._names))
        if unknown:
            known = ", ".join(self._names) or "none yet"
            raise InvalidSettings(f"--only {unknown[0]}: no such destination; known: {known}")
        if self._short_lease is not None:
            raise self._short_lease

    async def _target(self, row: Any) -> Target | None:
        """Return the target for a row of destinations, or None when this relay does not serve it."""
        if self._settings.only is not None and row.name not in self._settings.only:
            return None
        destination = Destination.from_row(row)
        try:
            sink = await self._sink(destination.sink)
            default = getattr(sink, "default_policy", Policy())
            policy = parse_policy(destination.policy, default)
            _check_handlers(sink, destination)
        except InvalidSettings as error:
            self._complain(destination.name, str(error))
            return None
        try:
            lease_seconds = self._settings.lease_seconds(policy.timeout, destination.name)
        except InvalidSettings as error:
            self._short_lease = error  # refused at start; of a destination added later it is a complaint
            self._complain(destination.name, str(error))
            return None
        self._complaints.pop(destination.name, None)
        if self._around is not None:
            sink = self._around(sink)
        target = self.targets.get(destination.id)
        if target is None:
            target = Target(destination, policy, sink, lease_seconds)
        target.become(destination)
        target.policy, target.sink, target.lease_seconds = policy, sink, lease_seconds
        now = time.monotonic()
        target.held_until = now + row.held_seconds if row.held_seconds and row.held_seconds > 0 else 0.0
        target.returned_at = None if row.returned_seconds is None else now - row.returned_seconds
        target.may_have_due = True
        return target

    def _complain(self, name: str, reason: str) -> None:
        """Say once per reason that a destination is not served; the others go on."""
        if self._complaints.get(name) != reason:
            self._complaints[name] = reason
            log.warning("destination %s is not served here: %s", name, reason)

    async def _sink(self, name: str) -> Sink:
        if name not in self._sinks:
            sink = load_sink(name)()
            opener = getattr(sink, "open", None)
            if opener is not None:
                await opener(self.context)
            self._sinks[name] = sink
        return self._sinks[name]

    async def close(self) -> None:
        """Close the sinks."""
        for sink in self._sinks.values():
            closer = getattr(sink, "close", None)
            if closer is not None:
                await closer()

    def open_targets(self, now: float) -> Iterable[Target]:
        """Return the targets that may be claimed for at `now` (monotonic seconds)."""
        return [target for target in self.targets.values() if target.is_open(now)]


def _check_handlers(sink: Sink, destination: Destination) -> None:
    """Refuse a destination whose event types this relay has no handler for: it never claims what it cannot run."""
    served = getattr(sink, "served_types", None)
    if served is None:
        return
    known = served(destination.name)
    missing = [pattern for pattern in destination.event_types if not _is_covered(pattern, known)]
    if missing:
        raise InvalidSettings(f"no handler for {missing[0]!r} is registered here; load the module with --app")


def _is_covered(pattern: str, patterns: Iterable[str]) -> bool:
    """Tell whether every type that `pattern` matches is matched by one of `patterns`."""
    prefix = pattern.removesuffix("*")
    return any(
        known in {"*", pattern} or (known.endswith(".*") and prefix.startswith(known.removesuffix("*")))
        for known in patterns
    )
