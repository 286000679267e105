"""Leases are renewed from their own thread, and never taken back once another relay has them."""

from __future__ import annotations

import asyncio

from relays.leases import Leases
from tests.claiming import claim, target
from tests.queues import add_destination, open_deliveries, record
from tests.waiting import wait_until

LEASE_SECONDS = 0.9


def held(dsn, connection):
    [run] = asyncio.run(claim(dsn, target(connection))).runs
    leases = Leases(dsn, lambda _: None, beat_seconds=5.0)
    leases.add(run.deliveries[0], LEASE_SECONDS)
    return leases


def test_a_lease_is_renewed_while_the_event_loop_is_blocked(database):
    with database.connect() as connection:
        add_destination(connection)
        record(connection)
        leases = held(database.dsn, connection)
        connection.execute("update outbox.deliveries set leased_until = now()")
        first = open_deliveries(connection)[0][6]
        leases.start(LEASE_SECONDS)
        try:
            wait_until(lambda: open_deliveries(connection)[0][6] > first, "a renewal")
            second = open_deliveries(connection)[0][6]
            wait_until(lambda: open_deliveries(connection)[0][6] > second, "another one")
        finally:
            leases.stop()


def test_a_lost_lease_is_not_taken_back(database):
    with database.connect() as connection:
        add_destination(connection)
        record(connection)
        rounds = []
        [run] = asyncio.run(claim(database.dsn, target(connection))).runs
        leases = Leases(database.dsn, lambda _: rounds.append(1), beat_seconds=5.0)
        leases.add(run.deliveries[0], LEASE_SECONDS)
        connection.execute("update outbox.deliveries set lease_token = lease_token + 1000")
        before = open_deliveries(connection)[0]
        leases.start(LEASE_SECONDS)
        wait_until(lambda: len(rounds) > 2, "some rounds")
        leases.stop()
        assert open_deliveries(connection)[0] == before
