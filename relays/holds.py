"""Parks destinations when an answer asks for it (promise held-not-lost): here at once, and in the database for all."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import TYPE_CHECKING, Any

import psycopg

from outbox.errors import DatabaseUnreachable
from outbox.model import DestinationState
from relays.health import after_probe, blames_destination
from relays.results import Delivered

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from relays.clock import ServerClock
    from relays.results import Hold, Result
    from relays.sessions import Session
    from relays.targets import Target

__all__ = ["Holds"]

log = logging.getLogger("relays.holds")

SAME_SECONDS = 1.0
"""A hold that ends within this of the present one says nothing new: no write."""


class Holds:
    """Applies the holds that results ask for, and those that follow from many failures."""

    def __init__(self, session: Session, clock: ServerClock) -> None:
        self._session = session
        self._clock = clock
        self._writing: set[asyncio.Task[None]] = set()

    def observe(self, target: Target, result: Result, started: float) -> None:
        """Judge the destination by the result of one attempt: trip it, hold it, or let it go on after its probe.

        `started` is monotonic seconds. What began before the present state says nothing about it: a straggler that
        fails after the trip is no probe, and one that fails after the return must not trip it again.
        """
        self._ease(target, result, started)
        if result.hold is not None:
            self.apply(target, result.hold)
        elif started < target.state_since:
            return
        elif target.destination.state is DestinationState.TRIPPED:
            self._judge_probe(target, result)
        else:
            self._count(target, result)

    def _count(self, target: Target, result: Result) -> None:
        if (is_failure := blames_destination(result)) is not None:
            hold = target.breaker.observe(time.monotonic(), is_failure=is_failure)
            if hold is not None:
                self.apply(target, hold)

    def _ease(self, target: Target, result: Result, started: float) -> None:
        """Send less at once to a destination that has too much to do, and more again as it delivers."""
        if isinstance(result, Delivered):
            target.overload.delivered()
        elif result.is_overload and target.overload.refused(
            time.monotonic(), started=started, in_flight=target.in_flight
        ):
            name, limit = target.destination.name, target.overload.limit
            log.info("destination %s is overloaded (%s): at most %d in flight here", name, result.reason, limit)

    def _judge_probe(self, target: Target, result: Result) -> None:
        tripped_seconds = max(self._clock.age_seconds(target.destination.state_changed_at), 0.0)
        hold = after_probe(result, tripped_seconds, spread=random.random())  # noqa: S311 - spread, not a secret
        if hold is not None:
            self.apply(target, hold)
            return
        target.breaker.reset()
        target.held_until = 0.0
        target.returned_at = time.monotonic()
        target.enter(DestinationState.ACTIVE)
        log.warning("destination %s is active again: its probe was answered", target.destination.name)
        self._start(self._run("recover_destination", {"destination_id": target.destination.id}, target))

    def apply(self, target: Target, hold: Hold) -> None:
        """Claim nothing more for `target`, and tell the other relays."""
        if not target.is_open(time.monotonic()) and not self._is_longer(target, hold):
            return  # many attempts end together; one of them says it
        if hold.seconds is not None:
            target.held_until = max(target.held_until, time.monotonic() + hold.seconds)
        if hold.state != "held":
            target.enter(DestinationState(hold.state))
        log.warning(
            "destination %s is %s%s: %s",
            target.destination.name,
            hold.state,
            f" for {hold.seconds:.3g} s" if hold.seconds is not None else "",
            hold.reason,
        )
        self._start(self._run("hold_destination", hold.parameters(target.destination.id), target))

    def _is_longer(self, target: Target, hold: Hold) -> bool:
        is_new_state = hold.state not in {"held", target.destination.state.value}
        ends = time.monotonic() + (hold.seconds or 0.0)
        return is_new_state or ends > target.held_until + SAME_SECONDS

    async def written(self) -> None:
        """Come back when what was decided is stored."""
        if self._writing:
            await asyncio.wait(self._writing)

    def _start(self, writing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(writing)
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _run(self, name: str, parameters: Mapping[str, Any], target: Target) -> None:
        try:
            await self._session.execute(name, parameters)
        except (psycopg.Error, DatabaseUnreachable, OSError) as error:
            # this relay keeps to it anyway; the others learn from their own attempts
            log.warning("state of destination %s not stored: %s", target.destination.name, str(error).strip())
