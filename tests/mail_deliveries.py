"""Deliveries for tests that call the e-mail sink directly."""

from __future__ import annotations

import asyncio
import itertools
import json
from datetime import UTC, datetime

from outbox.model import Destination, DestinationState
from relays.deliveries import Delivery
from relays.sinks.email import EmailSink

EVENT_ID = "0192f0c1-7a2b-7c3d-8e4f-5a6b7c8d9e0f"
RECORDED_AT = datetime(2026, 12, 1, 9, 30, 0, 250_000, tzinfo=UTC)
MAIL = {"to": "ada@example.com", "subject": "Your order", "text": "Thank you."}

_versions = itertools.count(1)


def destination(server, **settings) -> Destination:
    """Return a destination of a loopback server, in plain text unless the settings say other."""
    return Destination(
        id=7,
        name="mail",
        sink="email",
        event_types=("*",),
        settings={
            "host": "127.0.0.1",
            "port": server.port,
            "security": "plain",
            "from": "shop@example.com",
            **settings,
        },
        policy={},
        state=DestinationState.ACTIVE,
        state_reason=None,
        state_changed_at=RECORDED_AT,
        held_until=None,
        version=next(_versions),
    )


def delivery(to: Destination, payload=None, *, seconds: float = 5.0, **values) -> Delivery:
    """Return a first attempt of a mail to `to`; `payload` comes on top of a small one."""
    return Delivery(
        **{
            "id": 1,
            "event_id": EVENT_ID,
            "destination": to,
            "attempt": 1,
            "type": "mail.receipt",
            "body": json.dumps({**MAIL, **(payload or {})}).encode(),
            "headers_json": b"{}",
            "key": None,
            "recorded_at": RECORDED_AT,
            "deadline_seconds": seconds,
            **values,
        }
    )


def send_all(*deliveries: Delivery, between=None, loop_factory=None) -> list:
    """Send one after the other through one sink, `between()` called between two, and return the results."""

    async def run():
        sink = EmailSink()
        results = []
        try:
            for position, one in enumerate(deliveries):
                if position and between is not None:
                    await asyncio.to_thread(between)
                results.append(await sink.send(one))
        finally:
            await sink.close()
        return results

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(run())


def send(server, payload=None, *, seconds: float = 5.0, values=None, **settings):
    """Send one mail and return the result."""
    return send_all(delivery(destination(server, **settings), payload, seconds=seconds, **(values or {})))[0]
