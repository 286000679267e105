"""Sinks: the code that sends. One instance per relay and sink name, shared by all its destinations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from relays.deliveries import Delivery
    from relays.results import Result

__all__ = ["Sink"]


@runtime_checkable
class Sink(Protocol):
    """What a plug-in implements; found through the entry-point group `outbox.sinks`.

    The class is called without arguments, once per relay. It may also have `async open()` and
    `async close()`, a class attribute `default_policy` (`outbox.policy.Policy`), a class method
    `check(settings)` that raises `outbox.errors.InvalidSettings` before a destination is saved, and a class
    attribute `secret_settings` naming the settings that are never shown.
    """

    async def send(self, delivery: Delivery) -> Result:
        """Try once, without retrying, and say how it ended. The relay enforces the deadline by cancelling."""
        ...
