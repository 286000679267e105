"""What watches a relay at work: metrics, the log of attempts. Called per batch, never per event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relays.settlements import Settled
    from relays.slots import Run

__all__ = ["Observer", "Observers"]


class Observer(Protocol):
    """Gets what happened as the relay's core has it, and must neither block nor raise."""

    def claimed(self, runs: Sequence[Run], seconds: float) -> None:
        """Note that one claim statement, which took `seconds`, brought `runs`; none is a claim, too."""

    def settled(self, batch: Sequence[Settled], seconds: float) -> None:
        """Note that `batch` is written, by one statement that took `seconds`."""

    def lost(self, batch: Sequence[Settled]) -> None:
        """Note that the outcomes of `batch` were discarded: their leases had become another relay's."""


class Observers:
    """Several observers as one."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def claimed(self, runs: Sequence[Run], seconds: float) -> None:
        """Tell all of them."""
        for observer in self._observers:
            observer.claimed(runs, seconds)

    def settled(self, batch: Sequence[Settled], seconds: float) -> None:
        """Tell all of them."""
        for observer in self._observers:
            observer.settled(batch, seconds)

    def lost(self, batch: Sequence[Settled]) -> None:
        """Tell all of them."""
        for observer in self._observers:
            observer.lost(batch)
