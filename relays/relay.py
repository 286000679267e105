"""One relay: its parts, how they start, and how it stops without leaving anything leased behind."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg

from outbox.errors import DatabaseUnreachable
from relays import __version__
from relays.clock import ServerClock
from relays.context import RelayContext
from relays.cycle import Cycle
from relays.doorbell import Doorbell
from relays.holds import Holds
from relays.janitor import Janitor
from relays.leases import Leases
from relays.observer import Observers
from relays.queries import query
from relays.serving import Serving
from relays.sessions import Session
from relays.settings import LEASE_FLOOR_SECONDS
from relays.settlements import Settlements
from relays.slots import Slots
from relays.tasks import ended

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from relays.deliveries import Delivery
    from relays.observer import Observer
    from relays.results import Result
    from relays.settings import RelaySettings
    from relays.settlements import Settled
    from relays.sinks import Sink
    from relays.targets import Target

__all__ = ["Relay"]

log = logging.getLogger("relays.relay")

BEAT_SECONDS = 5.0


class Relay:
    """One relay process. `run()` works until `stop()` is called, or with `drain` until nothing is due.

    `observer` is told what happened; `around` wraps each sink, for what must see an attempt from within.
    """

    def __init__(
        self,
        settings: RelaySettings,
        *,
        is_pooled: bool = False,
        observer: Observer | None = None,
        around: Callable[[Sink], Sink] | None = None,
    ) -> None:
        self._settings = settings
        self._observer: Observer = Observers() if observer is None else observer
        self._session = Session(settings.dsn, "claims", is_pooled=is_pooled)
        self._settling = Session(settings.dsn, "settlements", is_pooled=is_pooled)
        self._sweeping = Session(settings.dsn, "sweeps", is_pooled=is_pooled)
        self._clock = ServerClock()
        self._slots = Slots(settings.concurrency, self._finished, self._give_back, self._wake)
        self._leases = Leases(settings.dsn, self._beat, BEAT_SECONDS)
        self._serving = Serving(self._session, settings, around)
        self._doorbell = Doorbell(settings.listen_dsn or settings.dsn, settings.dsn, self._ring)
        self._holds = Holds(self._settling, self._clock)
        self._is_stopping = False
        self._is_hurried = False
        self._state = "running"
        self._told_serves = ""
        self._cycle: Cycle | None = None
        self.relay_id = 0
        self.given_back: list[tuple[Target, Delivery, bool]] = []

    async def run(self) -> None:
        """Register, serve until stopped, settle, and leave nothing leased behind."""
        async with AsyncExitStack() as stack:
            try:
                await self._start(stack)
            except BaseException:
                await self._withdraw()
                raise
            if self._cycle is not None:
                try:
                    await self._cycle.run()
                finally:
                    await self._finish(self._cycle)

    def stop(self) -> None:
        """Stop: the first call lets attempts finish within the grace, the second gives them back at once."""
        self._is_hurried = self._is_stopping
        if not self._is_stopping:
            log.info(
                "stopping: %d attempts under way, given back after %g s or at the next signal",
                self._slots.in_flight,
                self._settings.grace,
            )
        self._is_stopping = True
        self._state = "stopping"
        if self._cycle is not None:
            self._cycle.stop()
            self._cycle.wake()

    # ------------------------------------------------------------------ what it says of itself

    @property
    def not_ready_because(self) -> str | None:
        """Why the relay does not work just now, or None: the database answers and nothing is stuck unsettled."""
        if self._is_stopping:
            return "stopping"
        if self._cycle is None:
            return "starting"
        return self._failing_because

    @property
    def _failing_because(self) -> str | None:
        if self._cycle is None:
            return None
        if self._cycle.is_failing:
            return "claims fail: the database does not answer, or refuses"
        if self._settlements.is_failing:
            return "outcomes cannot be settled: the database does not answer, or refuses"
        return None

    @property
    def silent_seconds(self) -> float:
        """How long ago the cycle last came round; 0 before it starts."""
        return 0.0 if self._cycle is None else time.monotonic() - self._cycle.round_at

    @property
    def in_flight(self) -> int:
        """How many attempts are under way."""
        return self._slots.in_flight

    @property
    def concurrency(self) -> int:
        """How many attempts may be under way at once."""
        return self._slots.size

    @property
    def unsettled(self) -> int:
        """How many outcomes are not written yet."""
        return 0 if self._cycle is None else len(self._settlements)

    @property
    def is_listening(self) -> bool:
        """Whether commits wake the relay, or it polls."""
        return self._doorbell.is_available

    @property
    def targets(self) -> Sequence[Target]:
        """The destinations it serves."""
        return list(self._serving.targets.values())

    # ------------------------------------------------------------------ start and end

    async def _start(self, stack: AsyncExitStack) -> None:
        await stack.enter_async_context(self._session)
        await stack.enter_async_context(self._settling)
        await stack.enter_async_context(self._sweeping)
        [(self.relay_id,)] = await self._session.rows("register_relay", self._registration())
        self._serving.context = RelayContext(
            self._settings.dsn,
            self.relay_id,
            self._settings.concurrency,
            self._settings.app,
            is_pooled=self._session.is_pooled,
        )
        stack.push_async_callback(self._serving.close)
        await self._serving.refresh()
        self._serving.check()
        self._leases.start(self._shortest_lease())
        stack.callback(self._leases.stop)
        await self._doorbell.open()
        stack.push_async_callback(self._doorbell.close)
        await self._settling.execute("beat", self._heartbeat())  # says at once what is served, and whether it hears
        self._cycle = self._assemble()
        janitor = Janitor(self._settings.dsn, self.relay_id)
        for work in (self._doorbell.keep(), self._settlements.run(), janitor.run()):
            stack.push_async_callback(ended, asyncio.create_task(work))
        self._say_started()

    async def _withdraw(self) -> None:
        """Say that it stopped, if it was registered already: else it would be missed as a relay that died."""
        self._state = "stopped"
        if self.relay_id:
            with suppress(psycopg.Error, DatabaseUnreachable, OSError):
                await self._settling.execute("beat", self._heartbeat())

    def _assemble(self) -> Cycle:
        self._settlements = Settlements(
            self._settling,
            self._clock,
            self._leases,
            relay_id=self.relay_id,
            in_flight=lambda: self._slots.in_flight,
            written=self._written,
            lost=self._observer.lost,
        )
        cycle = Cycle(
            self._settings,
            self._session,
            self._sweeping,
            relay_id=self.relay_id,
            clock=self._clock,
            serving=self._serving,
            slots=self._slots,
            settlements=self._settlements,
            leases=self._leases,
            doorbell=self._doorbell,
            observer=self._observer,
            refreshed=lambda: self._leases.expect(self._shortest_lease()),
        )
        if self._is_stopping:
            cycle.stop()
        return cycle

    def _shortest_lease(self) -> float:
        return min((target.lease_seconds for target in self._serving.targets.values()), default=LEASE_FLOOR_SECONDS)

    def _registration(self) -> dict[str, Any]:
        return {
            "name": self._settings.name,
            "host": os.uname().nodename,
            "pid": os.getpid(),
            "version": __version__,
            "concurrency": self._settings.concurrency,
            "serves": self._serves(),
        }

    def _serves(self) -> str:
        return json.dumps({"destinations": sorted(t.destination.name for t in self._serving.targets.values())})

    def _beat(self, connection: psycopg.Connection[Any]) -> None:
        """Renew the heartbeat; called from the thread that renews leases."""
        try:
            connection.execute(query("beat"), self._heartbeat())
        except psycopg.Error:
            self._told_serves = ""  # not told yet: the next heartbeat says it again
            raise

    def _heartbeat(self) -> dict[str, Any]:
        serves = self._serves()
        is_new, self._told_serves = serves != self._told_serves, serves
        return {
            "relay_id": self.relay_id,
            "in_flight": self._slots.in_flight,
            "state": self._state,
            "doorbell": "listening" if self._doorbell.is_available else "polling",
            "failing": self._failing_because,
            "serves": serves if is_new else None,
            "relay_now": datetime.now(UTC),
        }

    async def _finish(self, cycle: Cycle) -> None:
        """Let attempts finish within the grace, settle them, and give the rest back."""
        self._state = "stopping"
        await self._doorbell.disarm()
        deadline = time.monotonic() + self._settings.grace
        while self._slots.in_flight and not self._is_hurried and time.monotonic() < deadline:
            await cycle.rest(deadline - time.monotonic())
        self.given_back = await self._slots.stop()
        for target, delivery, was_started in self.given_back:
            self._settlements.give_back(target, [delivery], was_started=was_started)
        # a database that is away keeps nobody from stopping; OSError: also the time-out
        with suppress(psycopg.Error, DatabaseUnreachable, OSError):
            async with asyncio.timeout(self._settle_seconds()):
                await self._settlements.drain()
                await self._holds.written()
                self._state = "stopped"
                await self._settling.execute("beat", self._heartbeat())
        self._say_given_back()

    def _settle_seconds(self) -> float:
        """How long to try settling at the end; after that leases lapse and another relay takes over."""
        return 1.0 if self._is_hurried else max(1.0, min(5.0, self._settings.grace))

    def _say_started(self) -> None:
        log.info(
            "relay %d started: %d destinations, concurrency %d, %s",
            self.relay_id,
            len(self._serving.targets),
            self._settings.concurrency,
            "doorbell on" if self._doorbell.is_available else f"polling every {self._settings.poll:g} s",
        )

    def _say_given_back(self) -> None:
        for target, delivery, was_started in self.given_back:
            log.warning(
                "gave back event %s to destination %s, attempt %d %s",
                delivery.event_id,
                target.destination.name,
                delivery.attempt,
                "was under way" if was_started else "had not begun",
            )
        if unsettled := len(self._settlements):
            log.error("%d outcomes could not be settled, they are sent again when the lease lapses", unsettled)

    # ------------------------------------------------------------------ what the parts tell each other

    def _wake(self) -> None:
        if self._cycle is not None:
            self._cycle.wake()

    def _ring(self) -> None:
        if self._cycle is not None:
            self._cycle.ring()

    def _finished(self, target: Target, delivery: Delivery, result: Result, started: float, ended: float) -> None:
        if delivery.interruptions and self._cycle is not None:
            self._cycle.suspect_finished()
        self._holds.observe(target, result, started)
        self._settlements.finish(target, delivery, result, started, ended)

    def _give_back(self, target: Target, deliveries: Sequence[Delivery]) -> None:
        self._settlements.give_back(target, deliveries)

    def _written(self, batch: Sequence[Settled], seconds: float) -> None:
        """Go on with the keys whose heads were finished, and wake when the next retry is due."""
        self._observer.settled(batch, seconds)
        for settled in batch:
            decision = settled.decision
            if decision is not None and decision.wait_seconds is not None:
                settled.target.due_in(decision.wait_seconds)
            elif settled.delivery.key is not None:
                settled.target.keys_going_on.add(settled.delivery.key)
                settled.target.may_have_due = True
        self._wake()
