"""What a sink answers: values, not exceptions. No I/O here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from outbox.model import Certainty

__all__ = ["Delivered", "Hold", "Refused", "Result"]


@dataclass(frozen=True, slots=True)
class Hold:
    """Asks to stop claiming for the destination: nothing is lost, no attempt is used.

    `seconds` is how long (Retry-After); None means until an operator resumes it (410, a wrong password).
    """

    state: Literal["held", "tripped", "disabled"]
    reason: str
    seconds: float | None = None

    def parameters(self, destination_id: int) -> dict[str, Any]:
        """Return what the query hold_destination takes."""
        return {
            "destination_id": destination_id,
            "state": self.state,
            "reason": self.reason,
            "seconds": self.seconds,
        }


@dataclass(frozen=True, slots=True)
class Delivered:
    """The destination has the event.

    `settled` says that the sink settled the delivery itself, in the transaction of what it did (promise lease-token
    kept there): nothing is written again.
    """

    status: int | None = None
    detail: str | None = None
    hold: Hold | None = None
    settled: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """The destination does not have the event, or may not have it.

    `reason` is a short code (`http_500`, `timeout`); `detail` is for people, redacted by the sink.
    `permanent` means the same bytes can never succeed. `charged=False` means the fault is not the delivery's
    (a wrong SMTP password): it is tried again without using up an attempt. `retry_after` is the least wait in seconds;
    `wait` is the wait itself, whatever the policy says. `is_delivery_only` means that the fault is this delivery's own
    and may pass (one greylisted mailbox): many of them don't make the destination unfit. `is_overload` means that the
    destination has too much to do: the relay sends it less at once until it delivers again.
    """

    reason: str
    detail: str | None = None
    permanent: bool = False
    retry_after: float | None = None
    wait: float | None = None
    certainty: Certainty = Certainty.ANSWERED
    status: int | None = None
    charged: bool = True
    hold: Hold | None = None
    is_delivery_only: bool = False
    is_overload: bool = False


Result = Delivered | Refused
