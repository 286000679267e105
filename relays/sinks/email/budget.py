"""The time one attempt may take, handed out to its steps."""

from __future__ import annotations

import time

__all__ = ["Budget"]

RESERVE_SHARE = 0.05
LONGEST_RESERVE_SECONDS = 1.0


class Budget:
    """What is left of `seconds`, less a reserve: the sink must say how an attempt ended before the relay cancels it.

    A cancelled attempt cannot tell whether the end of the data was on its way, and `on_ambiguous` would not be asked.
    """

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds - min(seconds * RESERVE_SHARE, LONGEST_RESERVE_SECONDS)

    def seconds(self, most: float) -> float:
        """Return how many seconds a step may take that would otherwise get `most`; always a little."""
        return max(min(most, self._ends - time.monotonic()), 0.001)
