"""What a handler's return value or exception means for its delivery. Pure, no I/O.

returns None or anything else    delivered
returns Delivered or Refused     just that
raises RetryLater(seconds)       again, in that many seconds
raises GiveUp(reason)            dead at once
raises anything else             again, after the policy's wait
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from datetime import timedelta
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from outbox.model import Certainty
from relays.results import Delivered, Refused, Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relays.deliveries import Delivery

__all__ = ["DELIVERED", "GiveUp", "RetryLater", "result_of_error", "result_of_value", "results_of_batch"]

DELIVERED = Delivered()
"""The one value for every plain success: building it anew costs more than calling the handler."""

_LONGEST_MESSAGE = 1000


class RetryLater(Exception):
    """Raised by a handler to try the delivery again in `seconds` (a number or a timedelta), whatever the policy says.

    With `charged=False` the try does not count against the policy's `max_attempts`.
    """

    def __init__(self, seconds: float | timedelta, reason: str = "", *, charged: bool = True) -> None:
        super().__init__(seconds, reason)
        self.seconds = seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds)
        self.reason = reason
        self.charged = charged


class GiveUp(Exception):
    """Raised by a handler when no further try can help: the delivery is dead, with `reason`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def result_of_value(value: object) -> Result:
    """Return what a handler's return value means."""
    return value if isinstance(value, Delivered | Refused) else DELIVERED


def results_of_batch(deliveries: Sequence[Delivery], value: object) -> list[Result]:
    """Return what a batch handler's return value means for each delivery, in their order.

    Raises:
        TypeError: it is neither None nor a mapping of some of the deliveries to exceptions or results.
    """
    if value is None:
        return [DELIVERED] * len(deliveries)
    if not isinstance(value, Mapping) or not value.keys() <= set(deliveries):
        raise TypeError(
            "a batch handler returns None, or a mapping of deliveries it was given to exceptions or Refused"
        )
    return [_result_of_entry(value.get(delivery)) for delivery in deliveries]


def _result_of_entry(entry: object) -> Result:
    match entry:
        case None:
            return DELIVERED
        case Delivered() | Refused():
            return entry
        case BaseException():
            return result_of_error(entry)
        case _:
            raise TypeError(f"a batch handler gave {type(entry).__name__} for a delivery; give an exception or Refused")


def result_of_error(error: BaseException) -> Refused:
    """Return what a handler's exception means, also one that is no `Exception`."""
    match error:
        case RetryLater():
            return Refused("retry_later", error.reason or None, wait=max(error.seconds, 0.0), charged=error.charged)
        case GiveUp():
            return Refused("gave_up", error.reason, permanent=True)
        case _:
            return Refused("handler_error", _described(error), certainty=Certainty.AMBIGUOUS)


def _described(error: BaseException) -> str:
    """Return type, message and place of an exception in one line: enough to find it, without any local variable."""
    message = " ".join(_message(error).split())[:_LONGEST_MESSAGE]
    return f"{type(error).__name__}{f': {message}' if message else ''}{_place(error)}"


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - an exception's own __str__ may be what is broken
        return f"(its message cannot be read: {type(broken).__name__})"


def _place(error: BaseException) -> str:
    frames: list[Any] = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    frame = frames[-1]
    return f" ({'/'.join(PurePath(frame.filename).parts[-2:])}:{frame.lineno} in {frame.name})"
