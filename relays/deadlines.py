"""Deadlines of attempts: one timer for all of them.

`asyncio.timeout` sets and cancels a timer for each attempt, which costs a quick handler more than the rest of it.
Here the loop holds one timer, for the nearest deadline.
"""

from __future__ import annotations

import asyncio
import math

__all__ = ["Deadlines"]


class Deadlines:
    """Cancels tasks that are past their deadline."""

    def __init__(self) -> None:
        self._due: dict[asyncio.Task[None], float] = {}
        self._overdue: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf

    def begin(self, task: asyncio.Task[None], now: float, seconds: float) -> None:
        """Let `task` run for `seconds` from `now` (monotonic seconds)."""
        due = now + seconds
        self._due[task] = due
        if due < self._timer_at:
            self._set_timer(due, due - now)

    def end(self, task: asyncio.Task[None]) -> bool:
        """Forget `task`; return whether it was cancelled here, in which case the cancellation is undone."""
        self._due.pop(task, None)
        if task not in self._overdue:
            return False
        self._overdue.discard(task)
        task.uncancel()
        return True

    def _set_timer(self, due: float, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = asyncio.get_running_loop().call_later(max(seconds, 0.0), self._check, due)

    def _check(self, now: float) -> None:
        """Cancel what is due at `now`, and wait for the next one; finished attempts left no timer behind."""
        self._timer, self._timer_at = None, math.inf
        for task, due in self._due.items():
            if due <= now and task not in self._overdue:
                self._overdue.add(task)
                task.cancel()
        if ahead := [due for task, due in self._due.items() if task not in self._overdue]:
            nearest = min(ahead)
            self._set_timer(nearest, nearest - now)
