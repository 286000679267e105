"""The body of a webhook: bytes around the recorded payload, which is never parsed and dumped again. Pure, no I/O."""

from __future__ import annotations

import json
from datetime import UTC
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from datetime import datetime

    from relays.deliveries import Delivery

__all__ = ["BodyFormat", "body_bytes", "body_headers", "content_type", "timestamp"]


class BodyFormat(StrEnum):
    """What the body looks like; `standard` is the advice of Standard Webhooks, `raw` the payload alone."""

    STANDARD = "standard"
    RAW = "raw"
    CLOUDEVENTS = "cloudevents"
    CLOUDEVENTS_BINARY = "cloudevents-binary"


def body_bytes(body_format: BodyFormat, delivery: Delivery, source: str) -> bytes:
    """Return the body: a function of the event alone, so the same bytes on every attempt (promise same-identity)."""
    match body_format:
        case BodyFormat.STANDARD:
            return b'{"type":"%b","timestamp":"%b","data":%b}' % (
                delivery.type.encode(),
                timestamp(delivery.recorded_at).encode(),
                delivery.body,
            )
        case BodyFormat.RAW | BodyFormat.CLOUDEVENTS_BINARY:
            return delivery.body
        case BodyFormat.CLOUDEVENTS:
            attributes = {**_attributes(delivery, source), "datacontenttype": "application/json"}
            return b'%b,"data":%b}' % (json.dumps(attributes).encode()[:-1], delivery.body)


def content_type(body_format: BodyFormat) -> str:
    """Return the content type of a body."""
    if body_format is BodyFormat.CLOUDEVENTS:
        return "application/cloudevents+json; charset=utf-8"
    return "application/json"


def body_headers(body_format: BodyFormat, delivery: Delivery, source: str) -> dict[str, str]:
    """Return the headers that carry what is not in the body."""
    if body_format is not BodyFormat.CLOUDEVENTS_BINARY:
        return {}
    return {f"ce-{name}": _header_value(value) for name, value in _attributes(delivery, source).items()}


def timestamp(moment: datetime) -> str:
    """Return `moment` in UTC as RFC 3339 writes it: `2026-12-01T00:00:00.123456Z`."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _attributes(delivery: Delivery, source: str) -> dict[str, str]:
    """Return the context attributes of CloudEvents 1.0; the key is the partitioning extension's."""
    attributes = {
        "specversion": "1.0",
        "id": delivery.event_id,
        "source": source,
        "type": delivery.type,
        "time": timestamp(delivery.recorded_at),
    }
    return attributes if delivery.key is None else attributes | {"partitionkey": delivery.key}


def _header_value(value: str) -> str:
    """Return `value` percent-encoded as the HTTP binding says: all but printable ASCII, and space, quote, per cent."""
    return quote(value, safe="!#$&'()*+,/:;<=>?@[\\]^`{|}")
