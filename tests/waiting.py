"""Waiting for a condition with a time-out, so that no test sleeps and hopes."""

from __future__ import annotations

import time


def wait_until(condition, what: str, seconds: float = 60.0):
    """Return the first true value of `condition()`; fail naming `what` when there is none in time."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(0.02)
