"""One claimed delivery, as a sink gets it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from outbox.model import Destination
    from relays.results import Refused

__all__ = ["Delivery"]


@dataclass(slots=True, eq=False)
class Delivery:
    """One event for one destination, leased by this relay.

    `event_id` is the identity every receiver sees, the same on each attempt. `body` is the payload as
    PostgreSQL spells it (UTF-8 JSON): send it, don't parse and re-dump it, or numbers lose digits.
    `attempt` counts from 1. `deadline_seconds` is the policy's timeout for this attempt. `recipient` is the one
    mailbox of an e-mail that this delivery is for; None: all that the payload names. Equal only to itself, so that
    it can be a key.

    `repeats` are requests of this attempt that came before the one whose outcome it has: a kept connection that died
    unanswered is repeated at once, and both requests are recorded (promise every-try-recorded). A sink adds them
    here before it sends again, so that they are known also when the attempt is cut off.
    """

    id: int
    event_id: str
    destination: Destination
    attempt: int
    type: str
    body: bytes
    headers_json: bytes
    key: str | None
    recorded_at: datetime
    deadline_seconds: float
    lease_token: int = 0
    interruptions: int = 0
    recipient: str | None = None
    repeats: tuple[Refused, ...] = ()

    @property
    def payload(self) -> Any:
        """The payload parsed; numbers with a fraction become `Decimal`, so no digit is lost."""
        return json.loads(self.body, parse_float=Decimal)

    @property
    def headers(self) -> Mapping[str, str]:
        """The producer's headers, with the trace context captured at record time."""
        return {} if self.headers_json == b"{}" else json.loads(self.headers_json)
