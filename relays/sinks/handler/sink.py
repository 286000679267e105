"""The handler sink: calls the Python function that is registered for the event's type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from outbox.errors import InvalidSettings
from outbox.model import Certainty
from outbox.policy import Policy
from relays.results import Refused
from relays.sinks.handler.app import load_app
from relays.sinks.handler.batches import Batches
from relays.sinks.handler.calls import DeliveryCall, async_call, thread_call
from relays.sinks.handler.groups import async_group, guarded, of_one, thread_group
from relays.sinks.handler.registry import REGISTRY
from relays.sinks.handler.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from relays.context import RelayContext
    from relays.deliveries import Delivery
    from relays.results import Result
    from relays.sinks.handler.connections import Connections
    from relays.sinks.handler.groups import GroupCall
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
        self._connections: Connections | None = None
        self._calls: dict[tuple[str, str], DeliveryCall] = {}
        self._by_handler: dict[tuple[str, Handler], DeliveryCall] = {}

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
        if self._connections is not None:
            await self._connections.close()

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
        owner = (delivery.destination.name, handler)  # one batch for all types of a pattern, not for two destinations
        if owner not in self._by_handler:
            self._by_handler[owner] = self._call_of(handler)
        call = self._calls[delivery.destination.name, delivery.type] = self._by_handler[owner]
        return call(delivery)

    def _call_of(self, handler: Handler) -> DeliveryCall:
        if handler.batch is None and not handler.transactional:
            return async_call(handler) if handler.is_async else thread_call(handler, self._threads)
        group = guarded(handler, self._group(handler))
        return of_one(group) if handler.batch is None else Batches(group, handler.batch).send

    def _group(self, handler: Handler) -> GroupCall:
        if not handler.transactional:
            return async_group(handler) if handler.is_async else thread_group(handler, self._threads)
        from relays.sinks.handler.transactions import async_transaction, thread_transaction

        connections = self._open_connections()
        if handler.is_async:
            return async_transaction(handler, connections)
        return thread_transaction(handler, connections, self._threads)

    def _open_connections(self) -> Connections:
        if self._connections is None:
            from relays.sinks.handler.connections import Connections  # only now: most relays need no pool

            if self._context is None:
                raise InvalidSettings(
                    "a transactional handler needs the relay's database; open the sink before sending"
                )
            self._connections = Connections(self._context.dsn, is_pooled=self._context.is_pooled)
        return self._connections


async def _no_handler(delivery: Delivery) -> Refused:
    """Return the refusal of an event that was sent here by the name of the destination, not by its type."""
    return Refused(
        "no_handler",
        f"no handler for {delivery.type!r} is registered here; load the module that has it with --app",
        retry_after=NO_HANDLER_PAUSE_SECONDS,
        certainty=Certainty.NOT_SENT,
        charged=False,
    )
