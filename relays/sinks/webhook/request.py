"""The HTTP request of one attempt. No I/O."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from relays.http.engine import Request
from relays.sinks.webhook.bodies import body_bytes, body_headers
from relays.sinks.webhook.settings import check_header
from relays.sinks.webhook.signing import signed_headers

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from relays.deliveries import Delivery
    from relays.sinks.webhook.endpoint import Endpoint

__all__ = ["request_of"]

_FIXED = {
    "user-agent": f"outbox-relay/{version('outbox-relay')}",
    "accept": "*/*",
    "accept-encoding": "identity",  # nothing to unpack: 10 MB of gzip can be 10 GB
}


def request_of(endpoint: Endpoint, delivery: Delivery, now: datetime) -> Request:
    """Return the request of this attempt at `now`: the body is the same on every attempt, the signature is not.

    Raises:
        InvalidSettings: a header that came with the event cannot be sent; names it.
    """
    body = body_bytes(endpoint.body, delivery, endpoint.source)
    headers = {
        **_FIXED,
        **_forwarded(endpoint.forward_headers, delivery.headers),
        **endpoint.headers,
        **body_headers(endpoint.body, delivery, endpoint.source),
        **signed_headers(endpoint.keys_at(now), delivery.event_id, int(now.timestamp()), body),
        "idempotency-key": f'"{delivery.event_id}"',
        "webhook-attempt": str(delivery.attempt),
    }
    return Request(
        url=endpoint.url,
        headers=headers,
        body=body,
        guard=endpoint.guard,
        tls=endpoint.tls,
        connect_seconds=endpoint.connect_seconds,
        http2=endpoint.http2,
        proxy=endpoint.proxy,
    )


def _forwarded(wanted: frozenset[str] | None, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the event's own headers that are sent; recording checked them, a row written by hand was not."""
    forwarded = {name.lower(): value for name, value in headers.items()}
    if wanted is not None:
        forwarded = {name: value for name, value in forwarded.items() if name in wanted}
    for name, value in forwarded.items():
        check_header(name, value)
    return forwarded
