"""The handler sink: calls the Python function that is registered for the event's type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from outbox.errors import InvalidSettings
from outbox.model import Certainty
from outbox.policy import Policy
from relays.results import Refused
from relays.sinks.handler.app import load_app
from relays.sinks.handler.calls import async_call, thread_call
from relays.sinks.handler.registry import REGISTRY
from relays.sinks.handler.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from relays.context import RelayContext
    from relays.deliveries import Delivery
    from relays.results import Result
    from relays.sinks.handler.registry import Handler, Registry

__all__ = ["HandlerSink"]

MOST_STUCK_THREADS = 100
NO_HANDLER_PAUSE_SECONDS = 60.0


class HandlerSink:
    """Calls handlers. `registry` is where they are found, by default what `@relays.handler` registered."""

    default_policy: ClassVar[Policy] = Policy(base=1.0, factor=2.0, cap=3600.0, max_attempts=20)

    def __init__(self, registry: Registry = REGISTRY) -> None:
        self._registry = registry
        self._threads = Threads(MOST_STUCK_THREADS)
        self._context: RelayContext | None = None
        self._calls: dict[tuple[str, str], Callable[[Delivery], Coroutine[Any, Any, Result]]] = {}

    @classmethod
    def check(cls, settings: Mapping[str, Any]) -> None:
        """Refuse settings: a handler has none.

        Raises:
            InvalidSettings: there is one; names it.
        """
        if settings:
            raise InvalidSettings(
                f"handler has no setting {min(settings)!r}; what it does is in the function that takes the event type"
            )

    def served_types(self, destination: str | None = None) -> frozenset[str]:
        """Return the patterns of event types that handlers here take for `destination`; nothing else is claimed."""
        return self._registry.served_types(destination)

    async def open(self, context: RelayContext) -> None:
        """Load the modules that register handlers.

        Raises:
            InvalidSettings: a module cannot be imported.
        """
        self._context = context
        for name in context.app:
            load_app(name)

    async def close(self) -> None:
        """Let threads end and close connections."""
        self._threads.close()

    def send(self, delivery: Delivery) -> Coroutine[Any, Any, Result]:
        """Call the handler for the delivery's event type, once.

        Not `async` itself: it returns the coroutine of the call, and so costs a quick handler no second one.
        """
        call = self._calls.get((delivery.destination.name, delivery.type))
        return call(delivery) if call is not None else self._first_call(delivery)

    def _first_call(self, delivery: Delivery) -> Coroutine[Any, Any, Result]:
        handler = self._registry.find(delivery.destination.name, delivery.type)
        if handler is None:
            return _no_handler(delivery)
        call = self._calls[delivery.destination.name, delivery.type] = self._call_of(handler)
        return call(delivery)

    def _call_of(self, handler: Handler) -> Callable[[Delivery], Coroutine[Any, Any, Result]]:
        return async_call(handler) if handler.is_async else thread_call(handler, self._threads)


async def _no_handler(delivery: Delivery) -> Refused:
    """Return the refusal of an event that was sent here by the name of the destination, not by its type."""
    return Refused(
        "no_handler",
        f"no handler for {delivery.type!r} is registered here; load the module that has it with --app",
        retry_after=NO_HANDLER_PAUSE_SECONDS,
        certainty=Certainty.NOT_SENT,
        charged=False,
    )
