"""Producers: threads that record in transactions of their own, and write down how each ended."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import psycopg

import outbox
from tests.chaos.ledger import Ending, Recorded

if TYPE_CHECKING:
    from tests.chaos.ledger import Ledger

__all__ = ["Producers"]

TYPES = ("order.paid", "order.sent")
SHARED_KEYS = ("shared-1", "shared-2", "shared-3")


@dataclass(frozen=True)
class _Call:
    """What one call records."""

    type: str
    payload: Any
    key: str | None
    idempotency_key: str | None


class Producers:
    """`count` threads that record while in the `with` block, unless `is_paused` is set."""

    def __init__(self, dsn: str, ledger: Ledger, seed: int, count: int = 3, pause_seconds: float = 0.1) -> None:
        self.is_paused = threading.Event()
        self._stop = threading.Event()
        self._dsn = dsn
        self._ledger = ledger
        self._pause_seconds = pause_seconds
        self._threads = [
            threading.Thread(target=self._produce, args=(f"p{number}", seed + number), daemon=True)
            for number in range(count)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.stop()

    def stop(self) -> None:
        """Record nothing more, and come back when that is so."""
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    def record_one(self, text: str) -> None:
        """Record one event now, from the caller's thread."""
        call = _Call(TYPES[0], {"text": text}, None, None)
        began = time.monotonic()
        with psycopg.connect(self._dsn) as connection:
            event_id = _record(connection, call)
        ended = time.monotonic()
        self._ledger.add_recorded([Recorded(event_id, call.type, call.payload, Ending.COMMITTED, began, ended)])

    def _produce(self, name: str, seed: int) -> None:
        dice = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
        calls = _Calls(name, dice)
        while not self._stop.is_set():
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self._dsn) as connection:
                while not self._stop.wait(dice.uniform(0, 2) * self._pause_seconds):
                    if not self.is_paused.is_set():
                        self._transact(connection, [calls.draw() for _ in range(dice.randint(1, 4))], dice)
            self._stop.wait(0.2)

    def _transact(self, connection: psycopg.Connection[Any], calls: list[_Call], dice: random.Random) -> None:
        """Record `calls` in one transaction, some in a savepoint that is rolled back, and commit it or not."""
        began = time.monotonic()
        kept: list[tuple[str, _Call]] = []
        dropped: list[tuple[str, _Call]] = []
        ending = Ending.ROLLED_BACK
        try:
            for call in calls:
                if dice.random() < 0.05:
                    with connection.transaction(force_rollback=True):
                        dropped.append((_record(connection, call), call))
                else:
                    kept.append((_record(connection, call), call))
            if dice.random() < 0.15:
                connection.rollback()
            else:
                ending = Ending.UNKNOWN
                connection.commit()
                ending = Ending.COMMITTED
        finally:
            ended = time.monotonic()
            rows = [*((id_, call, ending) for id_, call in kept), *((*pair, Ending.ROLLED_BACK) for pair in dropped)]
            self._ledger.add_recorded(
                [
                    Recorded(id_, call.type, call.payload, how, began, ended, position, call.key, call.idempotency_key)
                    for position, (id_, call, how) in enumerate(rows)
                ]
            )


class _Calls:
    """Draws what to record next: some with a key, of its own or shared, some with an idempotency key used before."""

    def __init__(self, name: str, dice: random.Random) -> None:
        self._name = name
        self._dice = dice
        self._number = 0
        self._earlier: list[_Call] = []

    def draw(self) -> _Call:
        if self._earlier and self._dice.random() < 0.05:
            return self._dice.choice(self._earlier[-20:])
        self._number += 1
        number = f"{self._name}-{self._number}"
        payload = {
            "number": number,
            "amount": self._dice.randint(1, 10**18),
            "text": "ä€😀" * self._dice.randint(0, 20),
        }
        key = self._dice.choice([None, None, *(f"{self._name}-key-{n}" for n in range(4)), *SHARED_KEYS])
        call = _Call(self._dice.choice(TYPES), payload, key, number if self._dice.random() < 0.1 else None)
        if call.idempotency_key is not None:
            self._earlier.append(call)
        return call


def _record(connection: psycopg.Connection[Any], call: _Call) -> str:
    event_id = outbox.record_event(
        connection, call.type, call.payload, key=call.key, idempotency_key=call.idempotency_key
    )
    return str(event_id)
