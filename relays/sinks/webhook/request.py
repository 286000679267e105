"""The HTTP request of one attempt. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relays.http.engine import Request
from relays.sinks.webhook.bodies import BodyFormat, body_bytes, body_headers
from relays.sinks.webhook.settings import check_header
from relays.sinks.webhook.signing import signed_headers

if TYPE_CHECKING:
    from relays.deliveries import Delivery
    from relays.sinks.webhook.endpoint import Endpoint

__all__ = ["request_of"]


def request_of(endpoint: Endpoint, delivery: Delivery, now: float) -> Request:
    """Return the request of this attempt at `now` (Unix seconds).

    The body is the same on every attempt, the signature is not.

    Raises:
        InvalidSettings: a header that came with the event cannot be sent; names it.
    """
    body = body_bytes(endpoint.body, delivery, endpoint.source)
    headers = signed_headers(endpoint.keys_at(now), delivery.event_id, int(now), body)
    headers["idempotency-key"] = f'"{delivery.event_id}"'
    headers["webhook-attempt"] = str(delivery.attempt)
    if endpoint.body is BodyFormat.CLOUDEVENTS_BINARY:
        headers |= body_headers(endpoint.body, delivery, endpoint.source)
    if delivery.headers_json != b"{}":
        headers |= _forwarded(endpoint, delivery)
    return Request(endpoint.route, headers, body)


def _forwarded(endpoint: Endpoint, delivery: Delivery) -> dict[str, str]:
    """Return the event's own headers that are sent: none that the destination or the relay sets.

    Recording checked them, but a row written by hand was not.
    """
    wanted = endpoint.forward_headers
    headers = {name.lower(): value for name, value in delivery.headers.items()}
    forwarded = {name: value for name, value in headers.items() if wanted is None or name in wanted}
    for name, value in forwarded.items():
        check_header(name, value)
    return {name: value for name, value in forwarded.items() if name not in endpoint.route.headers}
