"""Destinations and deliveries made by hand, for tests of sinks."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from outbox.model import Destination, DestinationState
from relays.deliveries import Delivery

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["make_delivery", "make_destination"]

RECORDED_AT = datetime(2026, 12, 1, 9, 30, tzinfo=UTC)

_numbers = itertools.count(1)


def make_destination(settings: Mapping[str, Any], sink: str = "example", **values: Any) -> Destination:
    """Return an active destination with `settings`, with an id of its own; `values` replace other fields."""
    number = next(_numbers)
    fields: dict[str, Any] = {
        "id": number,
        "name": f"{sink}-{number}",
        "sink": sink,
        "event_types": ("*",),
        "settings": settings,
        "policy": {},
        "state": DestinationState.ACTIVE,
        "state_reason": None,
        "state_changed_at": RECORDED_AT,
        "held_until": None,
        "version": number,
    }
    return Destination(**{**fields, **values})


def make_delivery(destination: Destination, body: bytes = b"{}", **values: Any) -> Delivery:
    """Return the first attempt of an event of its own for `destination`; `values` replace other fields."""
    number = next(_numbers)
    fields: dict[str, Any] = {
        "id": number,
        "event_id": f"0192f0c1-7a2b-7c3d-8e4f-{number:012x}",
        "destination": destination,
        "attempt": 1,
        "type": "order.paid",
        "body": body,
        "headers_json": b"{}",
        "key": None,
        "recorded_at": RECORDED_AT,
        "deadline_seconds": 10.0,
    }
    return Delivery(**{**fields, **values})
