"""How a handler is called for one delivery: in the event loop, or in a thread."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from outbox.model import Certainty
from relays.deliveries import Delivery
from relays.results import Refused, Result
from relays.sinks.handler.contexts import in_own_context
from relays.sinks.handler.outcomes import DELIVERED, GiveUp, RetryLater, result_of_error, result_of_value
from relays.sinks.handler.threads import TooManyStuck

if TYPE_CHECKING:
    from relays.sinks.handler.registry import Handler
    from relays.sinks.handler.threads import Threads

__all__ = ["DeliveryCall", "async_call", "failed", "raise_if_cancelled", "thread_call", "threads_stuck"]

DeliveryCall = Callable[[Delivery], Coroutine[Any, Any, Result]]
"""Calls a handler with one delivery."""

log = logging.getLogger("relays.sinks.handler")

STUCK_PAUSE_SECONDS = 5.0


def async_call(handler: Handler) -> DeliveryCall:
    """Return the call of an async function: no task of its own, that would cost more than the rest."""
    function = handler.function

    async def call(delivery: Delivery) -> Result:
        try:
            value = await in_own_context(function(delivery))
        except BaseException as error:  # noqa: BLE001 - a handler's bug is an outcome of its delivery
            return failed(handler, delivery, error)
        return DELIVERED if value is None else result_of_value(value)

    return call


def thread_call(handler: Handler, threads: Threads) -> DeliveryCall:
    """Return the call of a blocking function in a thread."""
    function = handler.function

    async def call(delivery: Delivery) -> Result:
        try:
            value = await threads.run(partial(function, delivery))
            if inspect.isawaitable(value):  # an async function behind a decorator that is not
                value = await value
        except TooManyStuck as error:
            return threads_stuck(error)
        except BaseException as error:  # noqa: BLE001 - a handler's bug is an outcome of its delivery
            return failed(handler, delivery, error)
        return result_of_value(value)

    return call


def failed(handler: Handler, delivery: Delivery, error: BaseException) -> Refused:
    """Return what an exception of a handler means, and log it; the relay's own cancellation is raised again."""
    raise_if_cancelled(error)
    if not isinstance(error, RetryLater | GiveUp):
        log.error("handler %s failed for event %s", handler.name, delivery.event_id, exc_info=error)
    return result_of_error(error)


def raise_if_cancelled(error: BaseException) -> None:
    """Raise when the relay cancels this attempt, whatever a handler made of it: the relay says how it ended.

    A `CancelledError` that the relay did not cause (a handler awaited something that was cancelled) is none.

    Raises:
        asyncio.CancelledError: the relay wants the attempt to end.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        if isinstance(error, asyncio.CancelledError):
            raise error
        raise asyncio.CancelledError from error


def threads_stuck(error: TooManyStuck) -> Refused:
    """Return the refusal of a delivery that no thread was left for: it is not its fault."""
    return Refused(
        "threads_stuck",
        f"{error}; give their calls time limits shorter than the policy's timeout",
        retry_after=STUCK_PAUSE_SECONDS,
        certainty=Certainty.NOT_SENT,
        charged=False,
    )
