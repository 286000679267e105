"""The contract of sinks notices each way to break it: one broken sink for each, and only that test fails."""

from __future__ import annotations

import asyncio
import inspect
import time
from contextlib import contextmanager, suppress

import pytest

from outbox.errors import InvalidSettings
from outbox.model import Certainty
from relays.results import Delivered, Refused
from relays.sinks.testing import Behaviour, Receiver, Sent, SinkContract, running

NEEDED = "no setting but behaviour and secret"


class Good:
    """Keeps the contract; `sent` is the other side."""

    secret_settings = frozenset(("secret",))
    sent: list[Sent]

    @classmethod
    def check(cls, settings):
        if settings.keys() != {"behaviour", "secret"}:
            raise InvalidSettings(NEEDED)

    async def send(self, delivery):
        try:
            self.check(delivery.destination.settings)
        except InvalidSettings as error:
            return Refused("invalid_settings", str(error), permanent=True, certainty=Certainty.NOT_SENT)
        return await self.request(delivery)

    async def request(self, delivery):
        behaviour = delivery.destination.settings["behaviour"]
        if behaviour is Behaviour.AWAY:
            return Refused("unreachable", certainty=Certainty.NOT_SENT)
        self.sent.append(Sent(delivery.event_id, delivery.body))
        if behaviour is Behaviour.HANGS:
            await asyncio.Event().wait()
        return Refused("full") if behaviour is Behaviour.REFUSES else Delivered()


class ContractOfGood(SinkContract):
    sink_class = Good
    wrong_settings = ({}, {"colour": "red"})

    @contextmanager
    def receiving(self, behaviour):
        sent = []
        self.sink_class = type("Sink", (self.sink_class,), {"sent": sent})
        yield Receiver({"behaviour": behaviour, "secret": "correct horse battery"}, lambda: sent)


class TakesEverything(Good):
    @classmethod
    def check(cls, settings):
        pass

    async def send(self, delivery):
        return await self.request(delivery) if delivery.destination.settings.get("behaviour") else Refused("no_setting")


class RefusesInLines(Good):
    @classmethod
    def check(cls, settings):
        try:
            Good.check(settings)
        except InvalidSettings:
            raise InvalidSettings("wrong:\nall of it") from None


class DeclaresWrongly(Good):
    default_policy = {"max_attempts": 3}  # noqa: RUF012 - the fault in question


class TriesAgain(Good):
    async def request(self, delivery):
        result = await super().request(delivery)
        return await super().request(delivery) if isinstance(result, Refused) else result


class SendsTwice(Good):
    async def request(self, delivery):
        await super().request(delivery)
        return await super().request(delivery)


class SaysDelivered(Good):
    async def request(self, delivery):
        result = await super().request(delivery)
        return Delivered() if result == Refused("full") else result


class ReasonsInProse(Good):
    async def request(self, delivery):
        result = await super().request(delivery)
        return Refused("It is full!") if result == Refused("full") else result


class DetailsWithNul(Good):
    async def request(self, delivery):
        result = await super().request(delivery)
        return Refused("full", "\0") if result == Refused("full") else result


class GivesUpWhenAway(Good):
    async def request(self, delivery):
        result = await super().request(delivery)
        return Refused("unreachable", permanent=True) if result.__class__ is Refused and not self.sent else result


class TellsSecrets(Good):
    async def request(self, delivery):
        result = await super().request(delivery)
        secret = delivery.destination.settings["secret"]
        return Refused("full", f"{secret} was not enough") if result == Refused("full") else result


class Raises(Good):
    async def send(self, delivery):
        self.check(delivery.destination.settings)
        return await self.request(delivery)


class ReadsPayloads(Good):
    async def request(self, delivery):
        delivery.payload["amount"]
        return await super().request(delivery)


class NewIdentityEachTime(Good):
    async def request(self, delivery):
        result = await super().request(delivery)
        if self.sent:
            self.sent[-1] = Sent(f"{delivery.event_id}-{delivery.attempt}", self.sent[-1].content)
        return result


class OneAtATime(Good):
    is_busy = False

    async def request(self, delivery):
        if self.is_busy:
            return Refused("busy")
        self.is_busy = True
        await asyncio.sleep(0)
        self.is_busy = False
        return await super().request(delivery)


class ChangesTheDelivery(Good):
    async def request(self, delivery):
        delivery.headers_json = b'{"seen": "1"}'
        return await super().request(delivery)


class KeepsGoingWhenCancelled(Good):
    async def request(self, delivery):
        with suppress(asyncio.CancelledError):
            return await super().request(delivery)
        await asyncio.sleep(5)
        return Refused("cancelled")


class BlocksTheLoop(Good):
    async def request(self, delivery):
        if delivery.destination.settings["behaviour"] is Behaviour.HANGS:
            time.sleep(5)  # noqa: ASYNC251 - the fault in question
        return await super().request(delivery)


class LeavesTasks(Good):
    async def request(self, delivery):
        self.task = asyncio.get_running_loop().create_task(asyncio.Event().wait())
        return await super().request(delivery)


class ClosesOnce(Good):
    is_closed = False

    async def close(self):
        if self.is_closed:
            raise RuntimeError("is closed")
        self.is_closed = True


def failures_of(sink) -> set[str]:
    """Return the contract's tests that `sink` fails."""
    contract = type("Contract", (ContractOfGood,), {"sink_class": sink})
    failed = set()
    for name, _ in inspect.getmembers(contract, inspect.isfunction):
        if name.startswith("test_"):
            try:
                getattr(contract(), name)()
            except Exception:  # noqa: BLE001 - whatever makes a test fail
                failed.add(name)
    return failed


def test_a_sink_that_keeps_the_contract_passes():
    assert failures_of(Good) == set()


BROKEN = [
    (TakesEverything, {"test_good_settings_pass_its_check_and_wrong_ones_are_refused_in_one_line"}),
    (RefusesInLines, {"test_good_settings_pass_its_check_and_wrong_ones_are_refused_in_one_line"}),
    (DeclaresWrongly, {"test_its_policy_and_secrets_are_declared_as_values"}),
    (TriesAgain, {"test_a_refused_event_is_refused_and_not_tried_again_by_the_sink"}),
    (
        SendsTwice,
        {
            "test_an_accepted_event_is_delivered_by_one_request",
            "test_a_refused_event_is_refused_and_not_tried_again_by_the_sink",
            "test_every_attempt_carries_the_same_identity_and_content",
            "test_many_at_once_arrive_once_each",
        },
    ),
    (SaysDelivered, {"test_a_refused_event_is_refused_and_not_tried_again_by_the_sink"}),
    (ReasonsInProse, {"test_a_refused_event_is_refused_and_not_tried_again_by_the_sink"}),
    (DetailsWithNul, {"test_a_refused_event_is_refused_and_not_tried_again_by_the_sink"}),
    (GivesUpWhenAway, {"test_nobody_there_is_a_refusal_that_sent_nothing"}),
    (TellsSecrets, {"test_no_result_shows_a_secret"}),
    (Raises, {"test_settings_that_cannot_be_used_are_a_result_and_no_exception"}),
    (ReadsPayloads, {"test_whatever_the_payload_there_is_a_result_and_no_exception"}),
    (NewIdentityEachTime, {"test_every_attempt_carries_the_same_identity_and_content"}),
    (OneAtATime, {"test_many_at_once_arrive_once_each"}),
    (ChangesTheDelivery, {"test_the_delivery_is_left_as_it_was"}),
    (KeepsGoingWhenCancelled, {"test_a_cancelled_attempt_lets_go_and_never_blocks_the_loop"}),
    (BlocksTheLoop, {"test_a_cancelled_attempt_lets_go_and_never_blocks_the_loop"}),
    (LeavesTasks, {"test_closing_leaves_nothing_running_and_can_be_repeated"}),
    (ClosesOnce, {"test_closing_leaves_nothing_running_and_can_be_repeated"}),
]


@pytest.mark.parametrize(("sink", "noticed_by"), BROKEN, ids=[sink.__name__ for sink, _ in BROKEN])
def test_each_way_to_break_it_is_noticed_by_its_test(monkeypatch, sink, noticed_by):
    if sink is BlocksTheLoop:
        monkeypatch.setattr(running, "LIMIT_SECONDS", 3.0)  # shorter than it blocks
    assert failures_of(sink) == noticed_by
