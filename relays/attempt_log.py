"""The log of attempts: one line for each, delivered ones at debug level, since there may be thousands a second."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from outbox.model import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relays.settlements import Settled
    from relays.slots import Run

__all__ = ["AttemptLog"]

log = logging.getLogger("relays.attempts")

LEVELS = {Outcome.RETRY: logging.INFO, Outcome.DEAD: logging.WARNING}


class AttemptLog:
    """An observer that logs what was settled. No payload, and of the detail nothing: receivers may echo."""

    def claimed(self, runs: Sequence[Run], seconds: float) -> None:
        """Say nothing."""

    def settled(self, batch: Sequence[Settled], seconds: float) -> None:
        """Log each attempt whose level is wanted."""
        del seconds
        says_delivered = log.isEnabledFor(logging.DEBUG)
        for settled in batch:
            if settled.decision is not None:
                _say_refused(settled)
            elif says_delivered:
                _say(logging.DEBUG, settled, Outcome.DELIVERED, None, _status(settled))

    def lost(self, batch: Sequence[Settled]) -> None:
        """Say nothing: settling does."""


def _say_refused(settled: Settled) -> None:
    decision = settled.decision
    if decision is None or decision.outcome is Outcome.RELEASED:
        return  # said at the end of the relay
    _say(LEVELS.get(decision.outcome, logging.INFO), settled, decision.outcome, decision.reason, decision.status)


def _say(level: int, settled: Settled, outcome: Outcome, reason: str | None, status: int | None) -> None:
    delivery = settled.delivery
    duration_ms = round((settled.ended - settled.started) * 1000)
    fields = {
        "event": delivery.event_id,
        "type": delivery.type,
        "destination": delivery.destination.name,
        "attempt": delivery.attempt,
        "outcome": outcome.value,
        "reason": reason,
        "status": status,
        "duration_ms": duration_ms,
    }
    wait = None if settled.decision is None else settled.decision.wait_seconds
    log.log(
        level,
        "event %s to destination %s, attempt %d: %s%s in %d ms%s",
        delivery.event_id,
        delivery.destination.name,
        delivery.attempt,
        outcome.value,
        f" ({reason})" if reason else "",
        duration_ms,
        f", again in {wait:.3g} s" if wait is not None else "",
        extra={"fields": fields if wait is None else {**fields, "wait_seconds": round(wait, 3)}},
    )


def _status(settled: Settled) -> int | None:
    return None if settled.delivered is None else settled.delivered.status
