"""Deliveries for tests that call the handler sink directly."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime

from outbox.model import Destination, DestinationState
from relays.deliveries import Delivery
from relays.sinks.handler import HandlerSink
from relays.sinks.handler.registry import Handler, Registry

RECORDED_AT = datetime(2026, 12, 1, tzinfo=UTC)
_ids = itertools.count(1)


def destination(name: str = "work", **values) -> Destination:
    return Destination(
        **{
            "id": 1,
            "name": name,
            "sink": "handler",
            "event_types": ("*",),
            "settings": {},
            "policy": {},
            "state": DestinationState.ACTIVE,
            "state_reason": None,
            "state_changed_at": RECORDED_AT,
            "held_until": None,
            "version": 1,
            **values,
        }
    )


def delivery(event_type: str = "order.paid", **values) -> Delivery:
    """Return a first attempt of an event of `event_type`."""
    number = next(_ids)
    return Delivery(
        **{
            "id": number,
            "event_id": f"0192f0c1-7a2b-7c3d-8e4f-{number:012x}",
            "destination": destination(),
            "attempt": 1,
            "type": event_type,
            "body": b'{"amount": 12}',
            "headers_json": b"{}",
            "key": None,
            "recorded_at": RECORDED_AT,
            "deadline_seconds": 10.0,
            **values,
        }
    )


def registry(*handlers) -> Registry:
    """Return a registry of (pattern, function) or (pattern, function, options)."""
    made = Registry()
    for pattern, function, *options in handlers:
        made.add(Handler(function, **(options[0] if options else {})), (pattern,))
    return made


def send_all(sink_registry: Registry, *deliveries: Delivery, at_once: bool = False) -> list:
    """Send through one sink, one by one or all at once, and return the results."""

    async def run():
        sink = HandlerSink(sink_registry)
        try:
            if at_once:
                return await asyncio.gather(*(sink.send(one) for one in deliveries))
            return [await sink.send(one) for one in deliveries]
        finally:
            await sink.close()

    return asyncio.run(run())


def call(function, one: Delivery | None = None, **options):
    """Register `function` for everything, call it with one delivery and return the result."""
    return send_all(registry(("*", function, options)), one or delivery())[0]


async def until(condition, seconds: float = 20.0):
    """Let the event loop go on until `condition()` is true."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - conditions that threads make true have no event to wait for
            await asyncio.sleep(0.005)
