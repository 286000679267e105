"""How a handler is called for several deliveries at once, or for one in a transaction."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from relays.deliveries import Delivery
from relays.results import Result
from relays.sinks.handler.calls import DeliveryCall, failed, threads_stuck
from relays.sinks.handler.contexts import in_own_context
from relays.sinks.handler.threads import TooManyStuck

if TYPE_CHECKING:
    from relays.sinks.handler.registry import Handler
    from relays.sinks.handler.threads import Threads

__all__ = ["GroupCall", "async_group", "guarded", "of_one", "thread_group"]

GroupCall = Callable[[Sequence[Delivery]], Coroutine[Any, Any, list[Result]]]
"""Calls a handler with deliveries and returns their results in the same order."""


def async_group(handler: Handler) -> GroupCall:
    """Return the call of an async function with a list."""

    async def call(deliveries: Sequence[Delivery]) -> list[Result]:
        value = await in_own_context(handler.function(handler.argument(deliveries)))
        return handler.read(deliveries, value)

    return call


def thread_group(handler: Handler, threads: Threads) -> GroupCall:
    """Return the call of a blocking function with a list, in a thread."""

    async def call(deliveries: Sequence[Delivery]) -> list[Result]:
        value = await threads.run(partial(handler.function, handler.argument(deliveries)))
        if inspect.isawaitable(value):  # an async function behind a decorator that is not
            value = await value
        return handler.read(deliveries, value)

    return call


def guarded(handler: Handler, group: GroupCall) -> GroupCall:
    """Return `group` with what it raises turned into results: one for all of its deliveries."""

    async def call(deliveries: Sequence[Delivery]) -> list[Result]:
        try:
            return await group(deliveries)
        except TooManyStuck as error:
            return [threads_stuck(error)] * len(deliveries)
        except BaseException as error:  # noqa: BLE001 - a handler's bug is an outcome of its deliveries
            return [failed(handler, deliveries[0], error)] * len(deliveries)

    return call


def of_one(group: GroupCall) -> DeliveryCall:
    """Return `group` for a single delivery."""

    async def call(delivery: Delivery) -> Result:
        [result] = await group([delivery])
        return result

    return call
