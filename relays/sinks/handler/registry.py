"""Handlers by the types of event they take."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from outbox.errors import InvalidSettings
from relays.sinks.handler.outcomes import result_of_value, results_of_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from relays.deliveries import Delivery
    from relays.results import Result

__all__ = ["REGISTRY", "Handler", "Registry", "handler"]

Function = TypeVar("Function", bound="Callable[..., Any]")

_PATTERN = re.compile(r"\*|[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*(\.\*)?", re.ASCII)
_MOST_PER_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class Handler:
    """A function and how it is called: with one delivery, or with a list of up to `batch`."""

    function: Callable[..., Any]
    destination: str | None = None
    batch: int | None = None
    transactional: bool = False

    @property
    def name(self) -> str:
        """Where it is defined, for people."""
        return f"{self.function.__module__}.{getattr(self.function, '__qualname__', type(self.function).__name__)}"

    @property
    def is_async(self) -> bool:
        """Whether calling it gives a coroutine; else it runs in a thread."""
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(
            getattr(self.function, "__call__", None)  # noqa: B004 - an object with an async __call__ is one, too
        )

    def argument(self, deliveries: Sequence[Delivery]) -> Any:
        """Return what the function is called with: the list, or its only element."""
        return deliveries[0] if self.batch is None else deliveries

    def read(self, deliveries: Sequence[Delivery], value: object) -> list[Result]:
        """Return the results of the deliveries, in their order, from what the function returned.

        Raises:
            TypeError: a batch handler returned something else than None or a mapping of its deliveries.
        """
        return [result_of_value(value)] if self.batch is None else results_of_batch(deliveries, value)


class Registry:
    """Handlers by destination and pattern. For a destination of its own a handler goes before those for all."""

    def __init__(self) -> None:
        self._handlers: dict[tuple[str | None, str], Handler] = {}

    def add(self, handler: Handler, patterns: tuple[str, ...]) -> None:
        """Register `handler` for event types that match `patterns`: `order.paid`, `order.*` or `*`.

        Raises:
            InvalidSettings: a pattern or number makes no sense, the function takes other arguments, or another
                handler has the pattern.
        """
        _check(handler, patterns)
        for pattern in patterns:
            known = self._handlers.get((handler.destination, pattern))
            if known is not None and known.name != handler.name:  # the same name: its module was loaded again
                raise InvalidSettings(
                    f"two handlers for {pattern!r}: {known.name} and {handler.name};"
                    " remove one, or give each a destination of its own: @relays.handler(…, destination=NAME)"
                )
            self._handlers[handler.destination, pattern] = handler

    def find(self, destination: str, event_type: str) -> Handler | None:
        """Return the handler for an event type, the most specific pattern first; None when there is none."""
        for owner in (destination, None):
            for pattern in _patterns_of(event_type):
                if (found := self._handlers.get((owner, pattern))) is not None:
                    return found
        return None

    def served_types(self, destination: str | None = None) -> frozenset[str]:
        """Return the patterns handled for `destination`; None: those handled for every destination."""
        return frozenset(pattern for owner, pattern in self._handlers if owner in {None, destination})

    def clear(self) -> None:
        """Forget all handlers."""
        self._handlers.clear()


REGISTRY = Registry()
"""Where `@relays.handler` registers, and where the relay looks."""


def handler(
    *patterns: str, batch: int | None = None, transactional: bool = False, destination: str | None = None
) -> Callable[[Function], Function]:
    """Register the decorated function for event types that match one of `patterns` (`order.paid`, `order.*`, `*`).

    It is called with the `Delivery`, in the event loop when it is async, else in a thread. With `batch=N` it is
    called with a list of up to N deliveries and may return a mapping of those that failed to the exception or
    `Refused` for each. With `transactional=True` it gets a psycopg connection (async for an async function) as
    second argument, whose transaction also settles the delivery: what it writes there happens exactly once.
    `destination` limits it to the destination of that name. The function itself is returned unchanged.

    Raises:
        InvalidSettings: a pattern makes no sense, is taken, or the function takes other arguments.
    """

    def register(function: Function) -> Function:
        REGISTRY.add(Handler(function, destination, batch, transactional), patterns)
        return function

    return register


def _patterns_of(event_type: str) -> Iterator[str]:
    """Yield the patterns that match `event_type`, the most specific first."""
    yield event_type
    prefix = event_type
    while "." in prefix:
        prefix = prefix.rpartition(".")[0]
        yield f"{prefix}.*"
    yield "*"


def _check(handler: Handler, patterns: tuple[str, ...]) -> None:
    if not patterns:
        raise InvalidSettings(f"handler {handler.name}: no event type given; write @relays.handler('order.paid')")
    for pattern in patterns:
        if not _PATTERN.fullmatch(pattern):
            raise InvalidSettings(f"handler {handler.name}: {pattern!r} is no pattern; write order.paid, order.* or *")
    if handler.batch is not None and not 1 <= handler.batch <= _MOST_PER_BATCH:
        raise InvalidSettings(f"handler {handler.name}: batch={handler.batch} is not from 1 to {_MOST_PER_BATCH}")
    given = "one argument, the delivery" if handler.batch is None else "one argument, the list of deliveries"
    if handler.transactional:
        given = given.replace("one argument", "two arguments") + " and the connection"
    try:
        inspect.signature(handler.function).bind(*[None] * (2 if handler.transactional else 1))
    except TypeError:
        raise InvalidSettings(f"handler {handler.name} is called with {given}; change its parameters") from None
    except ValueError:  # a builtin without a signature: the first call tells
        return
