"""Whether a destination is fit to be sent to, decided without counters in the database. Pure, no I/O.

    active ──(most attempts of a minute failed)──▶ tripped ──(one probe delivered)──▶ active
                                                   │  ▲
                                                   │  └─(probe failed: wait as long again as it has been tripped)
                                                   └──(five days)──▶ disabled, until an operator resumes it

What the fleet must know is in the destination's row and written on transitions only: its state, since when, and
until when it is held. How long a tripped destination waits follows from since when it is tripped, and how fast one
that came back is loaded from since when it is active, so no relay needs another's memory. Trip and hold use up no
attempt (promise held-not-lost). All times are seconds; "now" is monotonic.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from outbox.durations import format_duration
from relays.results import Delivered, Hold

if TYPE_CHECKING:
    from relays.results import Result

__all__ = ["Breaker", "Limits", "after_failing", "after_probe", "blames_destination", "ramp"]


@dataclass(frozen=True, slots=True)
class Limits:
    """When a destination is tripped, and for how long.

    It trips when at least `least_failures` attempts of the last `window` failed and they are at least `share` of
    all. It is disabled when everything failed for `disable_after`, `least_events` different events at least, and the
    log warns of it after `warn_after`. `ramp` is the time in which what may be in flight doubles after it came back.
    """

    window: float = 60.0
    share: float = 0.8
    least_failures: int = 10
    first_wait: float = 30.0
    longest_wait: float = 3600.0
    disable_after: float = 5 * 86400.0
    warn_after: float = 86400.0
    least_events: int = 2
    ramp: float = 1.0


DEFAULT_LIMITS = Limits()


def blames_destination(result: Result) -> bool | None:
    """Tell whether an attempt failed because of its destination; None when it says nothing about it.

    A refusal for good is about the event, one that is not charged about this relay's set-up, one with a hold parks
    the destination itself, and 429 says that it works and is asked too often. A sink may say that a fault is the
    delivery's alone.
    """
    if isinstance(result, Delivered):
        return False
    is_throttled = result.status == HTTPStatus.TOO_MANY_REQUESTS
    is_silent = result.permanent or result.is_delivery_only or is_throttled
    return None if is_silent or not result.charged or result.hold is not None else True


class Breaker:
    """One destination's attempts of the last window, as one relay sees them.

    The window is cut into slices, so memory and work don't grow with the rate.
    """

    SLICES = 20

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._slices: deque[list[float]] = deque()  # [began, failed, all], the oldest first
        self._failed = 0
        self._all = 0

    def observe(self, now: float, *, is_failure: bool) -> Hold | None:
        """Count an attempt; return the hold to ask for when the destination trips with it, and forget the window."""
        self._forget(now)
        width = self._limits.window / self.SLICES
        if not self._slices or now - self._slices[-1][0] >= width:
            self._slices.append([now, 0, 0])
        self._slices[-1][1] += is_failure
        self._slices[-1][2] += 1
        self._failed += is_failure
        self._all += 1
        if not is_failure or not self._is_tripped:
            return None
        reason = (
            f"{self._failed} of {self._all} attempts failed within {format_duration(self._limits.window)};"
            " one probe decides whether it goes on"
        )
        self.reset()
        return Hold("tripped", reason, self._limits.first_wait)

    def reset(self) -> None:
        """Forget the window: after a trip or a return, old failures must not count again."""
        self._slices.clear()
        self._failed = self._all = 0

    @property
    def _is_tripped(self) -> bool:
        return self._failed >= self._limits.least_failures and self._failed >= self._limits.share * self._all

    def _forget(self, now: float) -> None:
        while self._slices and self._slices[0][0] <= now - self._limits.window:
            _, failed, every = self._slices.popleft()
            self._failed -= int(failed)
            self._all -= int(every)


def after_probe(
    result: Result, tripped_seconds: float, *, spread: float, limits: Limits = DEFAULT_LIMITS
) -> Hold | None:
    """Return what follows from a probe of a destination tripped for `tripped_seconds`; None when it is active again.

    It waits as long again as it has been tripped, so the waits double, up to an hour; after five days it is
    disabled. `spread` in [0, 1) adds up to a fifth: what tripped together is not probed together. An answer that
    is about the event alone (dead, a hold of its own) shows that the destination is there.
    """
    if blames_destination(result) is not True:
        return None
    said = result.reason if not isinstance(result, Delivered) else ""
    if tripped_seconds >= limits.disable_after:
        return Hold("disabled", f"failing for {format_duration(tripped_seconds)}, lately with {said}; resume it")
    wait = min(max(tripped_seconds, limits.first_wait), limits.longest_wait) * (1 + 0.2 * spread)
    return Hold("tripped", f"tripped for {format_duration(tripped_seconds)}; the last probe ended with {said}", wait)


def after_failing(
    failing_seconds: float, failures: int, failed_events: int, limits: Limits = DEFAULT_LIMITS
) -> Hold | None:
    """Return the hold for an active destination whose every attempt failed for `failing_seconds`, too few to trip it.

    `failures` are those attempts, `failed_events` the different events among them that say something about the
    destination: one alone may be the fault of that event. After five days and ten failures it is disabled.
    """
    if failing_seconds < limits.disable_after:
        return None
    if failures < limits.least_failures or failed_events < limits.least_events:
        return None
    return Hold("disabled", f"all {failures} attempts of {format_duration(failing_seconds)} failed; resume it")


def ramp(limit: int, active_seconds: float, limits: Limits = DEFAULT_LIMITS) -> int:
    """Return how much may be in flight to a destination that came back `active_seconds` ago, at most `limit`.

    One at first, then twice as much every second: what was held comes at a rate the receiver can take.
    """
    doublings = int(max(active_seconds, 0.0) / limits.ramp)
    return limit if doublings >= limit.bit_length() else min(1 << doublings, limit)
