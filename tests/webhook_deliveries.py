"""Deliveries for tests that call the webhook sink directly."""

from __future__ import annotations

import asyncio
import itertools
import json
from datetime import UTC, datetime

from outbox.model import Destination, DestinationState
from relays.deliveries import Delivery
from relays.sinks.webhook import WebhookSink

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
EVENT_ID = "0192f0c1-7a2b-7c3d-8e4f-5a6b7c8d9e0f"
RECORDED_AT = datetime(2026, 12, 1, 0, 0, 0, tzinfo=UTC)
LOOPBACK = {"allow_http": True, "allow_networks": ["127.0.0.0/8", "::1/128"]}

_versions = itertools.count(1)


def destination(url: str, **settings) -> Destination:
    """Return a destination of a loopback receiver; `settings` come on top."""
    return Destination(
        id=next(_versions),
        name="shop",
        sink="webhook",
        event_types=("*",),
        settings={"url": url, "secret": SECRET, **LOOPBACK, **settings},
        policy={},
        state=DestinationState.ACTIVE,
        state_reason=None,
        state_changed_at=RECORDED_AT,
        held_until=None,
        version=next(_versions),
    )


def delivery(to: Destination, *, seconds: float = 5.0, headers=None, body: bytes = b'{"total":"1.10"}', **values):
    """Return a first attempt of an event to `to`."""
    return Delivery(
        **{
            "id": 1,
            "event_id": EVENT_ID,
            "destination": to,
            "attempt": 1,
            "type": "order.paid",
            "body": body,
            "headers_json": json.dumps(headers or {}).encode(),
            "key": None,
            "recorded_at": RECORDED_AT,
            "deadline_seconds": seconds,
            **values,
        }
    )


def send_all(*deliveries: Delivery):
    """Send one after the other through one sink and return their results."""

    async def run():
        sink = WebhookSink()
        try:
            return [await sink.send(one) for one in deliveries]
        finally:
            await sink.close()

    return asyncio.run(run())


def send(url: str, *, seconds: float = 5.0, **settings):
    """Send one event to `url` and return the result."""
    return send_all(delivery(destination(url, **settings), seconds=seconds))[0]
