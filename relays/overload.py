"""How far one relay steps back from a destination that says it is overloaded. Pure, no I/O.

What may be in flight is halved by an answer like 502, 504 or 529, at most once per round of attempts, and grows by one
with every round that is delivered, until it is what it was. Each relay does so with its own share, so the fleet does.
Times are monotonic seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Overload"]


@dataclass(slots=True)
class Overload:
    """What may be in flight to one destination, as its answers allow: `limit`, None for as much as the policy says."""

    window: float | None = None
    before: int = 0
    cut_at: float = 0.0

    @property
    def limit(self) -> int | None:
        """How many attempts may be in flight, at least one."""
        return None if self.window is None else max(int(self.window), 1)

    def refused(self, now: float, *, started: float, in_flight: int) -> bool:
        """Halve after an overloaded answer to an attempt begun at `started`, one of `in_flight`; return whether it did.

        Answers to what was under way at the last cut say nothing about the smaller number.
        """
        if self.window is not None and started < self.cut_at:
            return False
        if self.window is None:
            self.before = in_flight
        self.window = max(min(self.window or in_flight, in_flight) / 2, 1.0)
        self.cut_at = now
        return True

    def delivered(self) -> None:
        """Grow after a delivery: by one when as many were delivered as may be in flight."""
        if self.window is None:
            return
        self.window += 1 / self.window
        if self.window >= self.before:
            self.window = None
