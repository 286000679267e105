"""The handler sink keeps the contract of all sinks, for each way to call a function."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager

from relays.results import Refused
from relays.sinks.handler import HandlerSink
from relays.sinks.handler.registry import Handler, Registry
from relays.sinks.testing import Behaviour, Receiver, Sent, SinkContract


class HandlerContract(SinkContract):
    sink_class = HandlerSink
    wrong_settings = ({"url": "https://example.com"},)
    test_settings_that_cannot_be_used_are_a_result_and_no_exception = None  # it has no settings to be wrong
    test_nobody_there_is_a_refusal_that_sent_nothing = None  # a handler is here, or its events are not claimed

    def make_sink(self, receiver):
        return HandlerSink(self.registry)

    @contextmanager
    def receiving(self, behaviour):
        sent: list[Sent] = []
        self.registry = Registry()
        self.registry.add(self.handler(behaviour, sent), ("*",))
        yield Receiver({}, lambda: sent)


def _take(behaviour, sent, delivery):
    sent.append(Sent(delivery.event_id, delivery.body))
    return Refused("no_stock") if behaviour is Behaviour.REFUSES else None


class TestAsyncHandlerContract(HandlerContract):
    def handler(self, behaviour, sent):
        async def handle(delivery):
            if behaviour is Behaviour.HANGS:
                await asyncio.Event().wait()
            return _take(behaviour, sent, delivery)

        return Handler(handle)


class TestThreadHandlerContract(HandlerContract):
    def handler(self, behaviour, sent):
        def handle(delivery):
            if behaviour is Behaviour.HANGS:
                asyncio.run(asyncio.sleep(3))
            return _take(behaviour, sent, delivery)

        return Handler(handle)


class TestBatchHandlerContract(HandlerContract):
    def handler(self, behaviour, sent):
        async def handle(deliveries):
            if behaviour is Behaviour.HANGS:
                await asyncio.Event().wait()
            return {delivery: _take(behaviour, sent, delivery) for delivery in deliveries}

        return Handler(handle, batch=7)
