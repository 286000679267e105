"""The webhook sink: one signed request per attempt, and what came of it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from outbox.errors import InvalidSettings, ReferenceMissing
from outbox.model import Certainty
from outbox.policy import Policy, parse_policy
from relays.http.engine import Failure
from relays.results import Hold, Refused
from relays.sinks.webhook.endpoint import resolve_endpoint
from relays.sinks.webhook.engines import open_engine
from relays.sinks.webhook.outcomes import result_of
from relays.sinks.webhook.probe import Probe
from relays.sinks.webhook.request import request_of
from relays.sinks.webhook.rotation import rotated
from relays.sinks.webhook.saving import check_settings
from relays.sinks.webhook.settings import parse_settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from outbox.model import Destination
    from relays.context import RelayContext
    from relays.deliveries import Delivery
    from relays.http.engine import Engine, Request
    from relays.http.resolver import Resolver
    from relays.results import Result
    from relays.sinks.reports import ProbeReport
    from relays.sinks.webhook.endpoint import Endpoint

__all__ = ["WebhookSink"]

MISSING_HOLD_SECONDS = 60.0
MARGIN_SECONDS = 0.1
_MINUTE, _HOUR = 60.0, 3600.0


class WebhookSink:
    """Sends events as Standard Webhooks. `resolver` is what names are looked up with, the system's by default."""

    default_policy: ClassVar[Policy] = Policy(
        schedule=(5.0, 5 * _MINUTE, 30 * _MINUTE, *(hours * _HOUR for hours in (2, 5, 10, 14, 20, 24))),
        max_attempts=10,
        timeout=20.0,
        max_in_flight=4,
    )
    secret_settings: ClassVar[frozenset[str]] = frozenset(("secret", "previous_secrets", "headers", "url", "proxy"))

    def __init__(self, resolver: Resolver | None = None) -> None:
        self._resolver = resolver
        self._engines: dict[str, Engine] = {}
        self._endpoints: dict[int, tuple[int, Endpoint]] = {}

    @classmethod
    def check(cls, settings: Mapping[str, Any]) -> None:
        """Refuse settings that could not be sent with; looks up no secret and no file.

        Raises:
            InvalidSettings: names the setting and the remedy, never a secret.
        """
        check_settings(settings)

    @classmethod
    def rotate_secret(
        cls, settings: Mapping[str, Any], new_secret: str, grace_seconds: float, now: datetime
    ) -> dict[str, Any]:
        """Return `settings` with `new_secret`; the secrets so far sign beside it until `grace_seconds` after `now`.

        Raises:
            InvalidSettings: the new secret is none, or is the current one already.
        """
        return rotated(settings, new_secret, grace_seconds, now)

    async def probe(self, destination: Destination, *, with_consent: bool = False) -> ProbeReport:
        """Test `destination` step by step with a signed test event, which no attempt row records.

        `with_consent` first asks with CloudEvents' OPTIONS request whether it may be sent to.
        """
        policy = parse_policy(destination.policy, self.default_policy)
        return await Probe(destination, self._resolver, policy.timeout).run(with_consent=with_consent)

    async def open(self, _context: RelayContext) -> None:
        """Load the library of the usual engine: done by the first attempt, it took the receiver's time for it."""
        self._engine("aiohttp")

    async def close(self) -> None:
        """Close all connections."""
        for engine in self._engines.values():
            await engine.close()
        self._engines.clear()

    async def send(self, delivery: Delivery) -> Result:
        """Try once. Only a kept connection that died before an answer is repeated, once and at once."""
        try:
            endpoint = self._endpoint(delivery.destination)
            request = request_of(endpoint, delivery, time.time())  # noqa: TID251 - receivers compare it with their clock
            engine = self._engine(endpoint.engine)
        except InvalidSettings as error:
            return _unusable(error)
        tries = delivery.attempt - delivery.interruptions
        outcome = await engine.exchange(request, _own_seconds(delivery))
        if not isinstance(outcome, Failure) or not outcome.is_stale_connection:
            return result_of(outcome, endpoint, tries)
        return await self._repeat(engine, request, endpoint, delivery, outcome)

    async def _repeat(
        self, engine: Engine, request: Request, endpoint: Endpoint, delivery: Delivery, stale: Failure
    ) -> Result:
        """Send again on a new connection in what is left of the time; the delivery tells of the first request."""
        tries = delivery.attempt - delivery.interruptions
        seconds = max(_own_seconds(delivery) - stale.timings.total, 0.001)
        first = result_of(stale, endpoint, tries)
        assert isinstance(first, Refused)  # noqa: S101 - a failure is never delivered
        delivery.repeats = (replace(first, reason="stale_connection"),)
        return result_of(await engine.exchange(request._replace(is_fresh=True), seconds), endpoint, tries)

    def _endpoint(self, destination: Destination) -> Endpoint:
        """Return the destination's resolved settings; they are looked up once per version of it."""
        known = self._endpoints.get(destination.id)
        if known is not None and known[0] == destination.version:
            return known[1]
        endpoint = resolve_endpoint(parse_settings(destination.settings))
        self._endpoints[destination.id] = (destination.version, endpoint)
        return endpoint

    def _engine(self, name: str) -> Engine:
        engine = self._engines.get(name)
        if engine is None:
            engine = self._engines[name] = open_engine(name, self._resolver)
        return engine


def _own_seconds(delivery: Delivery) -> float:
    """Return the time for the requests of an attempt: a little less than the relay gives.

    The relay cancels at the deadline and knows nothing then; here a time-out knows whether anything was sent, and
    a status that came in time counts.
    """
    return delivery.deadline_seconds - min(MARGIN_SECONDS, 0.1 * delivery.deadline_seconds)


def _unusable(error: InvalidSettings) -> Refused:
    """Return what settings that cannot be used mean: wrong ones stay wrong, missing ones may appear."""
    if not isinstance(error, ReferenceMissing):
        return Refused("invalid_settings", str(error), permanent=True, certainty=Certainty.NOT_SENT)
    return Refused(
        "setting_missing",
        str(error),
        certainty=Certainty.NOT_SENT,
        charged=False,
        hold=Hold("held", str(error), MISSING_HOLD_SECONDS),
    )
