"""Keeps the leases of everything in flight or not yet settled, from a thread of its own.

Its own thread and connection: a handler that blocks the event loop for longer than a lease must not cost the relay
what it is working on.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import psycopg

from outbox.database import connect
from outbox.errors import DatabaseUnreachable
from relays.patience import ANSWER_SECONDS, answering_within
from relays.queries import query
from relays.sessions import PLAN_COUNT, SET_PLANS

if TYPE_CHECKING:
    from collections.abc import Callable

    from relays.deliveries import Delivery

__all__ = ["Leases"]

log = logging.getLogger("relays.leases")

RENEWALS_PER_LEASE = 3


class Leases:
    """The deliveries this relay owns, renewed a few times per lease by one statement.

    `beat` is called at each round with the open connection, so that the heartbeat needs no other.
    """

    def __init__(self, dsn: str, beat: Callable[[psycopg.Connection[object]], None], beat_seconds: float) -> None:
        self._dsn = dsn
        self._beat = beat
        self._beat_seconds = beat_seconds
        self._shortest_lease = beat_seconds * RENEWALS_PER_LEASE
        self._held: dict[int, tuple[int, float]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outbox-leases", daemon=True)

    def add(self, delivery: Delivery, lease_seconds: float) -> None:
        """Own `delivery` from now on."""
        self._held[delivery.id] = (delivery.lease_token, lease_seconds)

    def remove(self, delivery_id: int) -> None:
        """Stop owning a delivery: settled, released or lost."""
        self._held.pop(delivery_id, None)

    def __len__(self) -> int:
        """Return how many deliveries are owned."""
        return len(self._held)

    def start(self, shortest_lease: float) -> None:
        """Start renewing; `shortest_lease` in seconds is the shortest of all served destinations."""
        self.expect(shortest_lease)
        self._thread.start()

    def expect(self, shortest_lease: float) -> None:
        """Renew often enough for leases of `shortest_lease` seconds."""
        self._shortest_lease = shortest_lease

    def stop(self) -> None:
        """Stop renewing, once everything is settled or released."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        connection: psycopg.Connection[object] | None = None
        while not self._stop.wait(min(self._beat_seconds, self._shortest_lease / RENEWALS_PER_LEASE)):
            try:
                if connection is None or connection.closed:
                    connection = connect(self._dsn, application_name="outbox-relay leases", prepare_threshold=None)
                with answering_within(ANSWER_SECONDS, connection):
                    self._beat(connection)
                    self._renew(connection)
            except (psycopg.Error, DatabaseUnreachable) as error:
                log.warning("leases not renewed, trying again: %s", str(error).strip() or type(error).__name__)
                if connection is not None:
                    connection.close()
        if connection is not None:
            connection.close()

    def _renew(self, connection: psycopg.Connection[object]) -> None:
        held = list(self._held.items())  # one step for the interpreter, so no lock against the event loop
        held.sort()  # by id, as transactional batches lock their rows: in another order the two could deadlock
        if not held:
            return
        with connection.transaction():
            connection.execute(SET_PLANS, [True] * PLAN_COUNT)
            connection.execute(
                query("renew_leases"),
                {
                    "ids": [delivery_id for delivery_id, _ in held],
                    "tokens": [token for _, (token, _) in held],
                    "lease_seconds": [seconds for _, (_, seconds) in held],
                },
            )
