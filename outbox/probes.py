"""Asks a destination's sink to test it, or to change its secret. What that means is the sink's business."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from outbox.errors import UsageError
from outbox.plugins import load_sink
from outbox.webhook_keys import generate_secret

if TYPE_CHECKING:
    from datetime import datetime

    from outbox.model import Destination

__all__ = ["probe", "rotated_settings"]


def probe(destination: Destination, *, with_consent: bool) -> dict[str, Any]:
    """Test `destination` with a real test event and return the steps, how each went, and how to repeat the request.

    Raises:
        UsageError: its sink cannot be tested; says what can be done instead.
    """
    kind = load_sink(destination.sink)
    if not hasattr(kind, "probe"):
        raise UsageError(
            f"the sink {destination.sink} has no test of its own; record an event for it:"
            f" outbox record outbox.test --destination {destination.name}"
        )
    report = asyncio.run(_run(kind, destination, with_consent=with_consent))
    return {
        "destination": report.destination,
        "host": report.host,
        "ok": report.is_ok,
        "steps": [
            {"name": step.name, "ok": step.is_ok, "seconds": round(step.seconds, 4), "detail": step.detail}
            for step in report.steps
        ],
        "curl": report.curl,
        "curl_variables": dict(report.curl_variables),
    }


async def _run(kind: type[Any], destination: Destination, *, with_consent: bool) -> Any:
    sink = kind()
    try:
        return await sink.probe(destination, with_consent=with_consent)
    finally:
        await sink.close()


def rotated_settings(
    destination: Destination, secret: str | None, grace_seconds: float, now: datetime
) -> tuple[dict[str, Any], str | None]:
    """Return the settings with a new secret, and that secret if it was made here.

    `secret` is a reference or a secret; None makes one. The secrets so far stay valid for `grace_seconds` from `now`.

    Raises:
        UsageError: the sink has no secret to rotate, or the new one makes no sense.
    """
    kind = load_sink(destination.sink)
    if not hasattr(kind, "rotate_secret"):
        raise UsageError(
            f"the sink {destination.sink} has no secret that could overlap;"
            f" change it with `outbox destinations set {destination.name} --set …`"
        )
    made = generate_secret() if secret is None else None
    settings: dict[str, Any] = kind.rotate_secret(destination.settings, secret or made, grace_seconds, now)
    return settings, made
