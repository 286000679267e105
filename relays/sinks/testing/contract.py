"""The contract of sinks: promises the relay builds on, each a test."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from contextlib import AbstractContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from outbox.errors import InvalidSettings
from outbox.model import Certainty
from outbox.policy import Policy
from relays.context import RelayContext
from relays.results import Delivered, Refused
from relays.sinks.testing.receiving import Behaviour, Receiver
from relays.sinks.testing.running import expect, run
from relays.sinks.testing.samples import make_delivery, make_destination

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from relays.deliveries import Delivery
    from relays.results import Result
    from relays.sinks import Sink

__all__ = ["SinkContract"]

AT_ONCE = 50
LETTING_GO_SECONDS = 2.0
"""How long the relay waits for a cancelled attempt."""

MOST_DETAIL_BYTES = 4096
SHORTEST_SECRET = 6
_REASON = re.compile(r"[a-z][a-z0-9_]{0,63}")
_PAYLOADS = (
    b"{}",
    b"[]",
    b"null",
    b'"text"',
    b'{"n": 12345678901234567890.123456789012345678901234567890}',
    b'{"to": {"to": [[[[[[[["\\u0001\\ud83d\\ude00"]]]]]]]]}}',
    b'{"subject": "a\\r\\nbcc: b@example.com", "text": "' + b"x" * 300_000 + b'"}',
)


class SinkContract:
    """Subclass it with the name `Test…` in a test module, set `sink_class` and write `receiving`.

    `body` is a payload that the sink can send, `wrong_settings` are some that `check` must refuse.
    """

    sink_class: ClassVar[type[Sink]]
    body: ClassVar[bytes] = b'{"amount": 12.10}'
    wrong_settings: ClassVar[tuple[Mapping[str, Any], ...]] = ()

    def receiving(self, behaviour: Behaviour) -> AbstractContextManager[Receiver]:
        """Return a context manager that starts the other side, yields it and ends it."""
        raise NotImplementedError(f"write {type(self).__name__}.receiving: it starts a receiver that {behaviour}")

    def make_sink(self, receiver: Receiver) -> Sink:  # noqa: ARG002 - for sinks that find their receiver otherwise than by settings
        """Return a new sink, made as the relay makes it: without arguments."""
        return self.sink_class()

    # ------------------------------------------------------------------ what the class says

    def test_its_policy_and_secrets_are_declared_as_values(self) -> None:
        """`default_policy` is a `Policy`, `secret_settings` a set of names, where they are there at all."""
        policy = getattr(self.sink_class, "default_policy", Policy())
        expect(isinstance(policy, Policy), f"default_policy is {policy!r}, not a Policy")
        secrets: object = getattr(self.sink_class, "secret_settings", frozenset())
        expect(isinstance(secrets, frozenset), f"secret_settings is {secrets!r}, not a frozenset of names")

    def test_good_settings_pass_its_check_and_wrong_ones_are_refused_in_one_line(self) -> None:
        """`check` raises `InvalidSettings` and nothing else."""
        check = getattr(self.sink_class, "check", None)
        if check is None:
            return
        with self.receiving(Behaviour.ACCEPTS) as receiver:
            check(receiver.settings)
        for settings in self.wrong_settings:
            message = _refusal(check, settings)
            expect(message is not None, f"check takes the settings {sorted(settings)}, which are wrong")
            expect("\n" not in (message or ""), f"the refusal has more than one line: {message!r}")

    # ------------------------------------------------------------------ what became of an attempt

    def test_an_accepted_event_is_delivered_by_one_request(self) -> None:
        """Accepted once is sent once."""
        result, receiver = self._send_one(Behaviour.ACCEPTS)
        expect(isinstance(result, Delivered), f"accepted, but the result is {result!r}")
        expect(len(receiver.sent()) == 1, f"one send was {len(receiver.sent())} requests")

    def test_a_refused_event_is_refused_and_not_tried_again_by_the_sink(self) -> None:
        """Trying again is the relay's: each try has its row (promise every-try-recorded)."""
        result, receiver = self._send_one(Behaviour.REFUSES)
        _expect_good_refusal(result)
        expect(len(receiver.sent()) <= 1, f"a refused send was {len(receiver.sent())} requests")

    def test_nobody_there_is_a_refusal_that_sent_nothing(self) -> None:
        """The event is not at fault: it must be tried again."""
        result, _ = self._send_one(Behaviour.AWAY)
        refused = _expect_good_refusal(result)
        expect(refused.certainty is Certainty.NOT_SENT, f"nothing was sent, but certainty is {refused.certainty}")
        expect(not refused.permanent, "nobody there may be somebody there later, but the refusal is permanent")

    def test_no_result_shows_a_secret(self) -> None:
        """Results are stored, logged and shown."""
        for behaviour in (Behaviour.ACCEPTS, Behaviour.REFUSES, Behaviour.AWAY):
            result, receiver = self._send_one(behaviour)
            for secret in self._secrets(receiver.settings):
                expect(secret not in repr(result), f"the result of one that {behaviour} shows a secret setting")

    def test_settings_that_cannot_be_used_are_a_result_and_no_exception(self) -> None:
        """They may have been stored by another version, or past the check."""
        for settings in self.wrong_settings:
            delivery = make_delivery(make_destination(settings), self.body)
            _expect_good_refusal(run(self._results(Receiver(settings), [delivery]))[0])

    def test_whatever_the_payload_there_is_a_result_and_no_exception(self) -> None:
        """Payloads are any JSON; one that cannot be sent is refused."""
        with self.receiving(Behaviour.ACCEPTS) as receiver:
            to = make_destination(receiver.settings)
            results = run(self._results(receiver, [make_delivery(to, body) for body in _PAYLOADS]))
        for body, result in zip(_PAYLOADS, results, strict=True):
            expect(isinstance(result, Delivered | Refused), f"the payload {body[:60]!r} has no result: {result!r}")

    # ------------------------------------------------------------------ what the receiver sees

    def test_every_attempt_carries_the_same_identity_and_content(self) -> None:
        """A receiver can tell the second try from a second event (promise same-identity)."""
        with self.receiving(Behaviour.ACCEPTS) as receiver:
            first = make_delivery(make_destination(receiver.settings), self.body)
            tries = [dataclasses.replace(first, attempt=attempt) for attempt in (1, 2, 9)]
            run(self._results(receiver, tries))
            sent = receiver.sent()
        expect(len(sent) <= len(tries), f"{len(tries)} attempts were {len(sent)} requests")
        expect(len(set(sent)) == 1, "attempts of one delivery differ in identity or content, or none was seen")

    def test_many_at_once_arrive_once_each(self) -> None:
        """One instance serves all destinations and attempts of a relay, at the same time."""
        with self.receiving(Behaviour.ACCEPTS) as receiver:
            to = make_destination(receiver.settings)
            results = run(self._results(receiver, [make_delivery(to, self.body) for _ in range(AT_ONCE)], at_once=True))
            identities = [sent.identity for sent in receiver.sent()]
        failed = [result for result in results if not isinstance(result, Delivered)]
        expect(not failed, f"{len(failed)} of {AT_ONCE} at once failed, the first with {failed[:1]!r}")
        expect(len(identities) == len(set(identities)) == AT_ONCE, f"{AT_ONCE} events were {len(identities)} requests")

    def test_the_delivery_is_left_as_it_was(self) -> None:
        """It is tried again from the same object."""
        with self.receiving(Behaviour.ACCEPTS) as receiver:
            delivery = make_delivery(make_destination(receiver.settings), self.body)
            before = _fields(delivery)
            run(self._results(receiver, [delivery]))
            expect(_fields(delivery) == before, "send changed the delivery")

    # ------------------------------------------------------------------ what the relay may do

    def test_a_cancelled_attempt_lets_go_and_never_blocks_the_loop(self) -> None:
        """The relay cancels at the deadline and when it stops; meanwhile it has others to serve."""
        with self.receiving(Behaviour.HANGS) as receiver:
            is_over = run(self._cancelled_in_time(receiver))
        expect(is_over, f"a cancelled attempt did not end within {LETTING_GO_SECONDS:g} s")

    def test_closing_leaves_nothing_running_and_can_be_repeated(self) -> None:
        """A relay that stops waits for nobody."""
        with self.receiving(Behaviour.ACCEPTS) as receiver:
            left = run(self._left_after_close(receiver))
        expect(not left, f"tasks go on after close(): {left}")

    # ------------------------------------------------------------------ how it is done

    def _send_one(self, behaviour: Behaviour) -> tuple[Result, Receiver]:
        with self.receiving(behaviour) as receiver:
            delivery = make_delivery(make_destination(receiver.settings), self.body)
            [result] = run(self._results(receiver, [delivery]))
            return result, Receiver(receiver.settings, receiver.sent().copy)

    async def _results(self, receiver: Receiver, deliveries: list[Delivery], *, at_once: bool = False) -> list[Result]:
        async with self._opened(receiver) as sink:
            if at_once:
                return list(await asyncio.gather(*(sink.send(delivery) for delivery in deliveries)))
            return [await sink.send(delivery) for delivery in deliveries]

    async def _cancelled_in_time(self, receiver: Receiver) -> bool:
        async with self._opened(receiver) as sink:
            to = make_destination(receiver.settings)
            task = asyncio.ensure_future(_awaited(sink, make_delivery(to, self.body)))
            await asyncio.wait([task], timeout=0.2)  # time to get as far as it gets
            task.cancel()
            _, pending = await asyncio.wait([task], timeout=LETTING_GO_SECONDS)
            return not pending

    async def _left_after_close(self, receiver: Receiver) -> list[str]:
        sink = self.make_sink(receiver)
        await _close(sink)  # opened or not
        async with self._opened(receiver) as used:
            await used.send(make_delivery(make_destination(receiver.settings), self.body))
        await _close(used)  # a second time
        others = asyncio.all_tasks() - {asyncio.current_task()}
        return [repr(task) for task in others]

    @asynccontextmanager
    async def _opened(self, receiver: Receiver) -> AsyncIterator[Sink]:
        """Make, open and close a sink as the relay does."""
        sink = self.make_sink(receiver)
        opener = getattr(sink, "open", None)
        if opener is not None:
            await opener(RelayContext(dsn="", relay_id=1, concurrency=AT_ONCE))
        try:
            yield sink
        finally:
            await _close(sink)

    def _secrets(self, settings: Mapping[str, Any]) -> list[str]:
        names: frozenset[str] = getattr(self.sink_class, "secret_settings", frozenset())
        values = (settings.get(name) for name in names)
        return [value for value in values if isinstance(value, str) and len(value) >= SHORTEST_SECRET]


async def _awaited(sink: Sink, delivery: Delivery) -> Result:
    return await sink.send(delivery)


async def _close(sink: Sink) -> None:
    closer = getattr(sink, "close", None)
    if closer is not None:
        await closer()


def _refusal(check: Any, settings: Mapping[str, Any]) -> str | None:
    """Return the message of the refusal, or None when there is none; other exceptions pass."""
    try:
        check(settings)
    except InvalidSettings as error:
        return str(error)
    return None


def _fields(delivery: Delivery) -> list[str]:
    return [repr(getattr(delivery, field.name)) for field in dataclasses.fields(delivery)]


def _expect_good_refusal(result: Result) -> Refused:
    """Return `result` if it is a refusal that can be stored and shown.

    Raises:
        AssertionError: it is not.
    """
    if not isinstance(result, Refused):
        raise AssertionError(f"not refused, but {result!r}")  # noqa: TRY004 - a failed expectation, not a wrong type
    expect(_REASON.fullmatch(result.reason) is not None, f"reason {result.reason!r} is no short_code")
    detail = result.detail or ""
    expect(len(detail.encode()) <= MOST_DETAIL_BYTES, f"detail has more than {MOST_DETAIL_BYTES} bytes")
    expect("\0" not in detail, "detail has a NUL, which PostgreSQL cannot store")
    return result
