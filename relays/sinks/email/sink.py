"""The e-mail sink: hands each delivery to a submission server, once, and says what came of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from outbox.errors import InvalidEvent, InvalidSettings, ReferenceMissing
from outbox.model import Certainty
from outbox.policy import Policy, parse_policy
from relays.details import clean_detail
from relays.results import Delivered, Hold, Refused
from relays.sinks.email.budget import Budget
from relays.sinks.email.envelope import build_envelope
from relays.sinks.email.pool import Pool, PoolBusy
from relays.sinks.email.replies import Phase, Trouble, refused_by
from relays.sinks.email.server import resolve_server
from relays.sinks.email.settings import OnAmbiguous, parse_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from outbox.model import Destination
    from relays.deliveries import Delivery
    from relays.results import Result
    from relays.sinks.email.envelope import Envelope
    from relays.sinks.reports import ProbeReport

__all__ = ["EmailSink"]

MISSING_HOLD_SECONDS = 60.0
BUSY_PAUSE_SECONDS = 1.0
LARGE_BODY_BYTES = 256 * 1024
_MINUTE, _HOUR = 60.0, 3600.0
_SCHEDULE = (*(_MINUTE * n for n in (1, 5, 15, 30)), *(_HOUR * n for n in (1, 2, 4, 8, 12, 24, 24, 24)))


class EmailSink:
    """Sends events as mail through submission servers, one pool of sessions per destination."""

    default_policy: ClassVar[Policy] = Policy(
        schedule=_SCHEDULE,
        max_attempts=len(_SCHEDULE) + 1,
        timeout=400.0,  # the final dot alone may take 300 s (RFC 5321 4.5.3.2.6 asks for more)
        max_in_flight=4,
    )
    secret_settings: ClassVar[frozenset[str]] = frozenset(("password",))

    def __init__(self) -> None:
        self._pools: dict[int, tuple[int, Pool]] = {}

    @classmethod
    def check(cls, settings: Mapping[str, Any]) -> None:
        """Refuse settings that could not be sent with; looks up no secret, no file and no name.

        Raises:
            InvalidSettings: names the setting and the remedy, never a secret.
        """
        parse_settings(settings)

    async def probe(self, destination: Destination, *, with_consent: bool = False) -> ProbeReport:  # noqa: ARG002 - webhooks' question
        """Test `destination` up to the sender, step by step, without sending a mail."""
        from relays.sinks.email.probe import probe_server

        policy = parse_policy(destination.policy, self.default_policy)
        return await probe_server(destination, policy.timeout)

    async def close(self) -> None:
        """End all sessions."""
        await asyncio.gather(*(pool.close() for _, pool in self._pools.values()))
        self._pools.clear()

    async def send(self, delivery: Delivery) -> Result:
        """Try once. Only a kept session that turns out to be closed is repeated, once and at once, on a new one."""
        budget = Budget(delivery.deadline_seconds)
        try:
            pool = self._pool(delivery.destination)
            envelope = await _envelope(delivery, pool)
            return await _send(pool, envelope, budget, delivery)
        except InvalidSettings as error:
            return _unusable(error)
        except InvalidEvent as error:
            return Refused("invalid_mail", str(error), permanent=True, certainty=Certainty.NOT_SENT)
        except PoolBusy as error:
            return _busy(error)

    def _pool(self, destination: Destination) -> Pool:
        """Return the destination's pool; its settings are looked up once per version of it."""
        known = self._pools.get(destination.id)
        if known is not None and known[0] == destination.version:
            return known[1]
        pool = Pool(resolve_server(parse_settings(destination.settings)))
        if known is not None:
            known[1].retire()
        self._pools[destination.id] = (destination.version, pool)
        return pool


async def _envelope(delivery: Delivery, pool: Pool) -> Envelope:
    """Build the mail; a large one in a thread, because encoding it takes tenths of a second."""
    if len(delivery.body) > LARGE_BODY_BYTES:
        return await asyncio.to_thread(build_envelope, delivery, pool.server.settings)
    return build_envelope(delivery, pool.server.settings)


async def _send(pool: Pool, envelope: Envelope, budget: Budget, delivery: Delivery) -> Result:
    server = pool.server
    holds = server.settings.on_ambiguous is OnAmbiguous.HOLD
    if holds and delivery.interruptions:
        return _held_back("the relay died in an earlier attempt, which may have sent it", None)
    try:
        try:
            answer = await _transmit(pool, envelope, budget)
        except _Stale as stale:
            delivery.repeats = (replace(refused_by(stale.trouble, server.name, server.hidden), charged=False),)
            answer = await _transmit(pool, envelope, budget, is_fresh=True)
    except Trouble as trouble:
        refused = refused_by(trouble, server.name, server.hidden)
        if holds and trouble.is_ambiguous:
            refused = _held_back(refused.detail, trouble.code)
        return refused
    said = " ".join(answer.split())
    detail = clean_detail(f"accepted by {server.name}: {said}", server.hidden)
    return Delivered(status=250, detail=detail)


class _Stale(Exception):
    """A kept session had been closed by the server: nothing was sent, and it says nothing about the mail."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble)
        self.trouble = trouble


async def _transmit(pool: Pool, envelope: Envelope, budget: Budget, *, is_fresh: bool = False) -> str:
    async with pool.session(budget, is_fresh=is_fresh) as session:
        was_used = session.messages > 0
        try:
            return await session.transmit(envelope, budget)
        except Trouble as trouble:
            if was_used and trouble.phase is Phase.MAIL and trouble.is_end_of_session:
                raise _Stale(trouble) from trouble
            raise


def _held_back(detail: str | None, status: int | None) -> Refused:
    """Return the refusal of a mail that may have been sent, where `on_ambiguous = hold`: people decide."""
    advice = "redrive it to send it again, discard it if it arrived"
    return Refused("ambiguous", f"{detail}; {advice}", permanent=True, certainty=Certainty.AMBIGUOUS, status=status)


def _busy(error: PoolBusy) -> Refused:
    return Refused(
        "connections_busy", str(error), certainty=Certainty.NOT_SENT, charged=False, retry_after=BUSY_PAUSE_SECONDS
    )


def _unusable(error: InvalidSettings) -> Refused:
    """Return what settings that cannot be used mean: wrong ones stay wrong, missing ones may appear."""
    if not isinstance(error, ReferenceMissing):
        return Refused("invalid_settings", str(error), permanent=True, certainty=Certainty.NOT_SENT)
    hold = Hold("held", str(error), MISSING_HOLD_SECONDS)
    return Refused("setting_missing", str(error), certainty=Certainty.NOT_SENT, charged=False, hold=hold)
