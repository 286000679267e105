"""Collects outcomes and writes them, many in one statement (promises lease-token, every-try-recorded)."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg import errors

from outbox.errors import DatabaseUnreachable
from outbox.model import Outcome
from relays.arrays import numbers, texts
from relays.decisions import Decision, decide, released, storable
from relays.results import Delivered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from relays.clock import ServerClock
    from relays.deliveries import Delivery
    from relays.leases import Leases
    from relays.results import Result
    from relays.sessions import Session
    from relays.targets import Target

__all__ = ["Settled", "Settlements"]

log = logging.getLogger("relays.settlements")

MOST_PER_FLUSH = 500
FLUSHES_BEFORE_PRESSURE = 2
LINGER_SECONDS = 0.010
BUSY_IN_FLIGHT = 16
LONGEST_PAUSE_SECONDS = 5.0


class Settled(NamedTuple):
    """One outcome on its way to the database. Times are monotonic seconds."""

    target: Target
    delivery: Delivery
    started: float
    ended: float
    delivered: Delivered | None
    decision: Decision | None


class Settlements:
    """Outcomes waiting for the database, and the task that writes them.

    Nothing here is lost while the database is away: outcomes stay until they are written, or until their lease is
    found to be another relay's. `written(batch, seconds)` is called after each flush, `lost(batch)` for those.
    """

    def __init__(
        self,
        session: Session,
        clock: ServerClock,
        leases: Leases,
        *,
        relay_id: int,
        in_flight: Callable[[], int],
        written: Callable[[Sequence[Settled], float], None],
        lost: Callable[[Sequence[Settled]], None] = lambda _: None,
    ) -> None:
        self._session = session
        self._clock = clock
        self._leases = leases
        self._relay_id = relay_id
        self._in_flight = in_flight
        self._written = written
        self._lost = lost
        self._waiting: list[Settled] = []
        self._writing = 0
        self._most_per_flush = MOST_PER_FLUSH
        self._wake = asyncio.Event()
        self._is_urgent = False
        self.is_failing = False

    def __len__(self) -> int:
        """Return how many outcomes are not written yet."""
        return len(self._waiting) + self._writing

    @property
    def is_pressing(self) -> bool:
        """Whether claiming should pause: more than two flushes wait."""
        return len(self) > FLUSHES_BEFORE_PRESSURE * self._most_per_flush

    def finish(self, target: Target, delivery: Delivery, result: Result, started: float, ended: float) -> None:
        """Take the result of an attempt."""
        if isinstance(result, Delivered):
            settled = Settled(target, delivery, started, ended, result, None)
            if result.settled:
                self._leases.remove(delivery.id)
                self._written([settled], 0.0)
                return
            self._waiting.append(settled)
        else:
            decision = decide(
                target.policy,
                result,
                tries=delivery.attempt - delivery.interruptions,
                age_seconds=self._clock.age_seconds(delivery.recorded_at),
                spread=random.random(),  # noqa: S311 - jitter, not a secret
            )
            self._waiting.append(Settled(target, delivery, started, ended, None, decision))
        if delivery.key is not None:
            self._is_urgent = True  # its followers wait for this
        self._wake.set()

    def give_back(self, target: Target, deliveries: Iterable[Delivery], *, was_started: bool = False) -> None:
        """Release deliveries: due again at once, not charged."""
        now = time.monotonic()
        decision = released(was_started=was_started)
        self._waiting.extend(Settled(target, delivery, now, now, None, decision) for delivery in deliveries)
        if self._waiting:
            self._wake.set()

    async def run(self) -> None:
        """Write outcomes as they come, for ever: at once when idle, gathered for some milliseconds when busy."""
        while True:
            await self._wake.wait()
            if not self._is_urgent and len(self._waiting) < self._most_per_flush and self._in_flight() > BUSY_IN_FLIGHT:
                await asyncio.sleep(LINGER_SECONDS)
            self._wake.clear()
            self._is_urgent = False
            await self.flush()

    async def flush(self) -> None:
        """Write what waits now, and come back when it is written; what comes meanwhile is gathered for the next."""
        pause = 0.05
        left = len(self._waiting)
        while left > 0 and self._waiting:
            batch = self._waiting[: min(left, self._most_per_flush)]
            del self._waiting[: len(batch)]
            self._writing += len(batch)
            try:
                await self._write(batch)
            except errors.QueryCanceled:
                self._most_per_flush = max(1, self._most_per_flush // 2)
                log.warning("settling timed out; trying again with batches of %d", self._most_per_flush)
                self._waiting[:0] = batch
            except (psycopg.Error, DatabaseUnreachable, OSError) as error:
                self._waiting[:0] = batch
                await self._pause(error, pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
            else:
                left -= len(batch)
                pause = 0.05
                self.is_failing = False
                self._most_per_flush = min(MOST_PER_FLUSH, self._most_per_flush * 2)
            finally:
                self._writing -= len(batch)

    async def drain(self) -> None:
        """Come back when everything is written."""
        while len(self):
            await self.flush()
            await asyncio.sleep(0)

    async def _pause(self, error: Exception, seconds: float) -> None:
        """Wait for the database; a read-only server after a failover is left for the new primary."""
        self.is_failing = True
        log.warning(
            "%d outcomes not settled yet, trying again in %.2g s: %s",
            len(self._waiting),
            seconds,
            str(error).strip() or type(error).__name__,
        )
        await self._session.reset()
        await asyncio.sleep(seconds * (1 + random.random() / 5))  # noqa: S311 - spread of a fleet's reconnects

    async def _write(self, batch: list[Settled]) -> None:
        begun = time.monotonic()
        [(settled_ids,)] = await self._session.rows("settle", _parameters(batch, begun, self._relay_id))
        for settled in batch:
            self._leases.remove(settled.delivery.id)
        if len(settled_ids) < len(batch):
            kept = set(settled_ids)
            lost = [settled for settled in batch if settled.delivery.id not in kept]
            for settled in lost:
                _say_lost(settled)
            self._lost(lost)
            batch = [settled for settled in batch if settled.delivery.id in kept]
        self._written(batch, time.monotonic() - begun)


def _say_lost(settled: Settled) -> None:
    log.warning(
        "lease for event %s to destination %s was lost after attempt %d, its result (%s) is discarded",
        settled.delivery.event_id,
        settled.delivery.destination.name,
        settled.delivery.attempt,
        Outcome.DELIVERED if settled.decision is None else settled.decision.outcome,
    )


def _parameters(batch: Sequence[Settled], now: float, relay_id: int) -> dict[str, Any]:
    delivered = [settled for settled in batch if settled.delivered is not None]
    refused = [settled for settled in batch if settled.decision is not None]
    decisions = [settled.decision for settled in refused if settled.decision is not None]
    results = [settled.delivered for settled in delivered if settled.delivered is not None]
    repeats = [(settled.delivery.id, repeat) for settled in batch for repeat in settled.delivery.repeats]
    has_answers = any(result.status is not None or result.detail is not None for result in results)
    return {
        "relay_id": relay_id,
        "ids": numbers(settled.delivery.id for settled in delivered),
        "tokens": numbers(settled.delivery.lease_token for settled in delivered),
        "ages_ms": _ages(delivered, now),
        "durations_ms": _durations(delivered),
        "statuses": numbers(result.status for result in results) if has_answers else None,
        "details": texts(storable(result.detail) for result in results) if has_answers else None,
        "refused_ids": numbers(settled.delivery.id for settled in refused),
        "refused_tokens": numbers(settled.delivery.lease_token for settled in refused),
        "refused_ages_ms": _ages(refused, now),
        "refused_durations_ms": _durations(refused),
        "outcomes": texts(decision.outcome.value for decision in decisions),
        "waits": numbers(decision.wait_seconds for decision in decisions),
        "reasons": texts(decision.reason for decision in decisions),
        "certainties": texts(decision.certainty.value for decision in decisions),
        "refused_statuses": numbers(decision.status for decision in decisions),
        "refused_details": texts(decision.detail for decision in decisions),
        "are_charged": numbers(decision.is_charged for decision in decisions),
        "were_started": numbers(decision.was_started for decision in decisions),
        "repeat_ids": numbers(delivery_id for delivery_id, _ in repeats),
        "repeat_reasons": texts(repeat.reason for _, repeat in repeats),
        "repeat_certainties": texts(repeat.certainty.value for _, repeat in repeats),
        "repeat_details": texts(storable(repeat.detail) for _, repeat in repeats),
    }


def _ages(batch: Sequence[Settled], now: float) -> str:
    return numbers(int((now - settled.started) * 1000) for settled in batch)


def _durations(batch: Sequence[Settled]) -> str:
    return numbers(int((settled.ended - settled.started) * 1000) for settled in batch)
