"""What becomes of a delivery after an attempt: settled, tried again, or dead. Pure functions, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from outbox.durations import format_duration
from outbox.model import Certainty, Outcome
from outbox.policy import wait_seconds

if TYPE_CHECKING:
    from outbox.policy import Policy
    from relays.results import Refused

__all__ = ["INTERRUPTIONS_UNTIL_DEAD", "INTERRUPTION_BACKOFF_SECONDS", "Decision", "decide", "storable"]

INTERRUPTIONS_UNTIL_DEAD = 4
"""The first interruption makes a delivery a suspect; three more while it runs as one make it dead."""

INTERRUPTION_BACKOFF_SECONDS = 2.0
"""The wait after the second interruption; it doubles."""

DETAIL_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Decision:
    """What settling writes for a refused attempt. `wait_seconds` is None when dead."""

    outcome: Outcome
    wait_seconds: float | None
    reason: str
    detail: str | None
    certainty: Certainty
    status: int | None
    is_charged: bool = True
    was_started: bool = True


def decide(policy: Policy, refused: Refused, *, tries: int, age_seconds: float, spread: float) -> Decision:
    """Return what follows from `refused` after `tries` charged tries of a delivery `age_seconds` old.

    `spread` in [0, 1) places the wait within the policy's jitter.
    """
    wait = refused.wait
    if wait is None:
        wait = wait_seconds(policy, max(tries, 1), retry_after=refused.retry_after, spread=spread)
    ending = _ending(policy, refused, tries, age_seconds + wait)
    detail = refused.detail if ending is None else "; ".join(filter(None, (ending, refused.detail)))
    return Decision(
        outcome=Outcome.RETRY if ending is None else Outcome.DEAD,
        wait_seconds=wait if ending is None else None,
        reason=refused.reason,
        detail=storable(detail),
        certainty=refused.certainty,
        status=refused.status,
        is_charged=refused.charged,
    )


def _ending(policy: Policy, refused: Refused, tries: int, age_at_next_try: float) -> str | None:
    """Return why the delivery is given up, or None to try again."""
    if refused.permanent:
        return "permanent"
    if not refused.charged:
        return None
    if tries >= policy.max_attempts:
        return f"gave up after {tries} of {policy.max_attempts} tries"
    if policy.max_age is not None and age_at_next_try > policy.max_age:
        return f"gave up before it would be older than max_age {format_duration(policy.max_age)}"
    return None


def released(*, was_started: bool) -> Decision:
    """Return the decision for a delivery given back untouched: due at once, not charged."""
    return Decision(
        outcome=Outcome.RELEASED,
        wait_seconds=0.0,
        reason="relay_stopped",
        detail="given back at the end of the relay's grace" if was_started else None,
        certainty=Certainty.AMBIGUOUS if was_started else Certainty.NOT_SENT,
        status=None,
        is_charged=False,
        was_started=was_started,
    )


def storable(text: str | None) -> str | None:
    """Return `text` so that PostgreSQL takes it: no NUL, no lone surrogate, at most 4096 bytes of UTF-8."""
    if text is None or (len(text) * 4 <= DETAIL_BYTES and text.isascii() and "\0" not in text):
        return text
    encoded = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace")
    return encoded[:DETAIL_BYTES].decode("utf-8", "ignore")
