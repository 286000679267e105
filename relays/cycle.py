"""The cycle of a relay: claim → wait → settle, owned by one task.

Everything that decides what to claim lives here. Slots, settlements and the doorbell only tell it that something
happened, by `wake()`; a wake shortens the wait and changes nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg

from outbox.errors import DatabaseUnreachable
from relays.claims import Ask, Claimed, Claims
from relays.discovery import Discovery
from relays.sweeps import Sweeps
from relays.tasks import ended

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from relays.clock import ServerClock
    from relays.doorbell import Doorbell
    from relays.leases import Leases
    from relays.observer import Observer
    from relays.serving import Serving
    from relays.sessions import Session
    from relays.settings import RelaySettings
    from relays.settlements import Settlements
    from relays.slots import Slots
    from relays.targets import Target

__all__ = ["Cycle"]

log = logging.getLogger("relays.cycle")

CLAIM_LIMIT = 500
"""Deliveries per claim statement: larger batches gain nothing, and the next claim overlaps with sending this one."""

FIRST_POLL_SECONDS = 0.005
BUSY_POLL_SECONDS = 0.002
QUIET_SECONDS = 0.005
"""Commits in quicker succession than this are polled for: ringing would cost the recorders more."""

GATHER_SECONDS = 0.003
"""Between two claims while most slots are busy: short beside any attempt that goes over a network."""

REFRESH_SECONDS = 1.0
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0


class Cycle:
    """Goes round until `stop()`, or when draining until nothing is due."""

    def __init__(
        self,
        settings: RelaySettings,
        session: Session,
        sweep_session: Session,
        *,
        relay_id: int,
        clock: ServerClock,
        serving: Serving,
        slots: Slots,
        settlements: Settlements,
        leases: Leases,
        doorbell: Doorbell,
        observer: Observer,
        refreshed: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._sessions = (session, sweep_session)
        self._serving = serving
        self._slots = slots
        self._settlements = settlements
        self._leases = leases
        self._doorbell = doorbell
        self._observer = observer
        self._refreshed = refreshed
        self._relay_id = relay_id
        self._claims = Claims(session, relay_id)
        self._sweeps = Sweeps(sweep_session, clock, settings.poll)
        self._sweeping: asyncio.Task[list[Target]] | None = None
        self._discovery = Discovery(session)
        self._woken = asyncio.Event()
        self._is_stopping = False
        self._is_rung = False
        self._must_look = False
        self._is_suspect_running = False
        self._has_suspects = False
        self._fenced = 0
        self._poll_seconds = FIRST_POLL_SECONDS
        self._poll_at = 0.0
        self._claimed_at = -1.0
        self._refresh_at = 0.0
        self.is_failing = False
        self.round_at = time.monotonic()

    def wake(self) -> None:
        """Something happened: a slot is free, an outcome is written, a stop was asked for."""
        self._woken.set()

    def ring(self) -> None:
        """Somebody recorded something."""
        self._is_rung = self._must_look = True
        self._woken.set()

    def suspect_finished(self) -> None:
        """The one suspect under way has ended; another may run."""
        self._is_suspect_running = False

    def stop(self) -> None:
        """Claim nothing more."""
        self._is_stopping = True
        self._woken.set()

    async def rest(self, seconds: float) -> None:
        """Wait for the next wake, from now on."""
        self._woken.clear()
        await self.sleep(seconds)

    async def sleep(self, seconds: float) -> None:
        """Sleep for `seconds`, or until woken."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), seconds)

    async def run(self) -> None:
        """Go round until stopped; the database may go away and come back meanwhile."""
        try:
            await self._go_round()
        finally:
            if self._sweeping is not None:
                await ended(self._sweeping)

    async def _go_round(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while not self._is_stopping:
            self.round_at = time.monotonic()
            try:
                if not await self._round():
                    return
                if not self.is_failing:
                    pause = FIRST_PAUSE_SECONDS
            except (psycopg.Error, DatabaseUnreachable, OSError) as error:
                self.is_failing = True
                self._sweeps.next_at = 0.0
                log.warning(
                    "not claiming, trying again in %.2g s: %s",
                    pause,
                    str(error).strip() or type(error).__name__,
                )
                for session in self._sessions:
                    await session.reset()
                if not self._is_stopping:  # a wake that was set before the error would end every pause at once
                    await self.rest(pause * (1 + random.random() / 5))  # noqa: S311 - spread of reconnects
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    async def _round(self) -> bool:
        """Claim, sweep or wait, once; return False when draining and nothing is left to do."""
        now = time.monotonic()
        if now >= self._refresh_at:
            if await self._serving.refresh():
                self._refreshed()
            await self._serving.rank(self._relay_id)
            self._refresh_at = now + REFRESH_SECONDS
        for target in self._serving.targets.values():
            target.wake(now)
        if self._must_look:
            self._must_look = await self._discovery.look(self._serving.targets)
        claimed = await self._claim()
        is_swept = self._sweep_beside(now)
        if is_swept:
            claimed += await self._claim_swept()
            self.is_failing = False  # not by a round that asked nothing of the database: readiness would come and go
        if self._is_rung or claimed:
            self._is_rung = False
            await self._doorbell.disarm()  # after the claim: what rang goes first
        if claimed:
            return True
        if is_swept and self._settings.drain and self._is_drained():
            return False
        await self._wait()
        return True

    async def _claim(self) -> int:
        """Claim for every destination with room that may have something due; return how many runs came."""
        asks = self._asks(target for target in self._open_targets() if target.may_have_due)
        claimed = await self._claim_asked(asks)
        drained = [ask for ask in asks if not ask.target.has_keys and not ask.target.may_have_due]
        if drained and await self._claims.has_keyed_rows(drained):
            for ask in drained:
                ask.target.has_keys = ask.target.may_have_due = True
        return claimed

    async def _claim_asked(self, asks: Sequence[Ask]) -> int:
        """Claim by the cheaper statement where no keys are in use, behind the fence where they are."""
        plain = [ask for ask in asks if not ask.target.has_keys]
        keyed = [ask for ask in asks if ask.target.has_keys]
        claimed = 0
        if plain:
            claimed += self._take(await self._timed(self._claims.without_keys(plain)))
        if keyed:
            claimed += self._take(await self._timed(self._claims.with_keys(keyed)))
        return claimed

    async def _timed(self, claim: Awaitable[Claimed]) -> Claimed:
        """Await a claim and tell the observer."""
        begun = time.monotonic()
        claimed = await claim
        self._observer.claimed(claimed.runs, time.monotonic() - begun)
        return claimed

    def _asks(self, targets: Iterable[Target], *, room: int | None = None) -> list[Ask]:
        """Return what to ask for: nothing while too much waits to be settled, and never more than can start now."""
        free = min(self._slots.free, CLAIM_LIMIT)
        if free == 0 or self._settlements.is_pressing:
            return []
        now = time.monotonic()
        candidates = [target for target in targets if target.is_open(now)]  # it may have been held meanwhile
        random.shuffle(candidates)  # so that with few slots left every destination gets its turn
        asks = []
        for target in candidates:
            if free == 0:
                break  # with thousands of destinations, asking the others takes longer than the claim
            wanted = target.room(free, now, is_alone=len(self._serving.targets) == 1)
            wanted = wanted if room is None else min(wanted, room)
            if wanted:
                asks.append(Ask(target, wanted, target.mark))
                free -= wanted
        return asks

    def _open_targets(self) -> Iterable[Target]:
        return self._serving.open_targets(time.monotonic())

    def _take(self, claimed: Claimed) -> int:
        """Own what was claimed and start it."""
        for run in claimed.runs:
            for delivery in run.deliveries:
                self._leases.add(delivery, run.target.lease_seconds)
            run.target.took(len(run.deliveries))
            self._slots.start(run)
        self._fenced += claimed.fenced
        if claimed.fenced:  # mostly a recorder that is committing just now
            self._poll_at = min(self._poll_at, time.monotonic() + BUSY_POLL_SECONDS)
        if claimed.runs:
            self._claimed_at = time.monotonic()
            self._poll_seconds = FIRST_POLL_SECONDS
        return len(claimed.runs)

    def _sweep_beside(self, now: float) -> bool:
        """Keep a sweep going beside the claims, a bounded share of the time; return whether one has just ended."""
        if self._sweeping is None:
            if now >= self._sweeps.next_at:
                is_busy = self._fenced > 0 or now - self._claimed_at < REFRESH_SECONDS
                self._fenced = 0
                sweep = self._sweeps.sweep(list(self._open_targets()), is_busy=is_busy)
                self._sweeping = asyncio.get_running_loop().create_task(sweep)
                self._sweeping.add_done_callback(lambda _: self.wake())
            return False
        return self._sweeping.done()

    async def _claim_swept(self) -> int:
        """Claim from the safe marks of what was swept; return how many runs came."""
        sweeping, self._sweeping = self._sweeping, None
        suspected = sweeping.result() if sweeping is not None else []
        self._has_suspects = bool(suspected)
        asks = [ask._replace(mark=ask.target.safe) for ask in self._asks(self._sweeps.swept)]
        claimed = await self._claim_asked(asks)
        if suspected and not self._is_suspect_running:
            claimed += await self._claim_suspect(suspected)
        return claimed

    async def _claim_suspect(self, targets: Sequence[Target]) -> int:
        """Claim at most one delivery during which a relay died: a poison event dies alone."""
        for target in targets:
            asks = [ask._replace(mark=target.safe) for ask in self._asks([target], room=1)]
            if asks:
                claimed = await self._timed(self._claims.with_keys(asks, suspects=True))
                if claimed.runs:
                    self._is_suspect_running = True
                    return self._take(claimed)
        return 0

    def _is_drained(self) -> bool:
        """Whether nothing is due here, in flight or unsettled."""
        is_idle = not self._slots.in_flight and not len(self._settlements)
        is_known = self._sweeps.is_round_done and not self._has_suspects and not self._fenced
        return is_idle and is_known and not any(target.may_have_due for target in self._open_targets())

    async def _gather(self, now: float) -> None:
        """Let a few more slots become free before the next claim, while most are busy: claims of one row cost most."""
        soon = self._claimed_at + GATHER_SECONDS - now
        if soon > 0 and self._slots.free * 2 < self._slots.size:
            await asyncio.sleep(soon)

    async def _wait(self) -> None:
        """Sleep until something happens: a ring, a free slot, a due time, the next sweep."""
        self._woken.clear()
        now = time.monotonic()
        if self._must_look:
            return
        if self._asks(t for t in self._open_targets() if t.may_have_due):
            await self._gather(now)
            return
        if now - self._claimed_at <= QUIET_SECONDS:
            self._poll_at = min(self._poll_at, now + BUSY_POLL_SECONDS)
        elif self._slots.free and await self._doorbell.arm():
            # a commit that raced the arming did not ring: look again soon, then ever less often
            self._poll_seconds = FIRST_POLL_SECONDS
            self._poll_at = time.monotonic() + FIRST_POLL_SECONDS
        dues = [target.next_due for target in self._serving.targets.values() if target.next_due is not None]
        sweep_at = self._sweeps.next_at if self._sweeping is None else math.inf
        until = min([self._poll_at, sweep_at, self._refresh_at, *dues])
        await self.sleep(max(until - time.monotonic(), 0.0))
        if (now := time.monotonic()) >= self._poll_at:
            self._must_look = True
            self._poll_seconds = min(self._poll_seconds * 2, self._settings.poll)
            self._poll_at = now + self._poll_seconds
