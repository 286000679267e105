"""What several relay processes do together to one receiver: limits of the fleet, and the ramp after a resume."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import ExitStack, contextmanager

from outbox.destinations import pause_destination, resume_destination
from tests.processes import relay_process
from tests.queues import count, record
from tests.receivers import Receiver, status
from tests.waiting import wait_until


class Gate:
    """A script that answers nothing before it is opened, and counts how many requests wait at once."""

    def __init__(self, seconds: float = 0.0):
        self.opened = threading.Event()
        self.waiting = 0
        self.most = 0
        self._seconds = seconds

    async def __call__(self, turn) -> None:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        while not await asyncio.sleep(0.01, self.opened.is_set()):
            pass
        await asyncio.sleep(self._seconds)
        self.waiting -= 1
        await status(200)(turn)


@contextmanager
def fleet(database, size: int):
    """Run so many relays, each of which knows of all others."""
    with ExitStack() as stack:
        relays = [stack.enter_context(relay_process(database.dsn, "--lease", "90s")) for _ in range(size)]
        for relay in relays:
            relay.wait_for(f"relays that serve: {size};")
        yield relays
        for relay in relays:
            assert relay.stop() == 0


def test_max_in_flight_is_that_of_the_fleet(database, add_webhook):
    gate = Gate(seconds=0.02)
    with Receiver(gate) as receiver, database.connect() as connection:
        add_webhook(receiver, max_in_flight=5, timeout="60s")
        with fleet(database, 3):
            for _ in range(60):
                record(connection)
            receiver.wait_for(5, 60)
            time.sleep(0.5)  # more would come in this time, if it were allowed
            assert len(receiver.requests) == 5
            gate.opened.set()
            wait_until(lambda: count(connection, "deliveries") == 0, "all are delivered")
        assert gate.most == 5
        assert count(connection, "attempts") == 60


def test_a_rate_is_that_of_the_fleet(database, add_webhook):
    with Receiver() as receiver, database.connect() as connection:
        add_webhook(receiver, rate="20/s", max_in_flight=50)
        with fleet(database, 2):
            began = time.monotonic()
            for _ in range(70):
                record(connection)
            requests = receiver.wait_for(70, 60)
            wait_until(lambda: count(connection, "deliveries") == 0, "all are settled")
        for number, request in enumerate(requests, 1):
            assert number <= 20 + 20 * (request.at - began) + 1


def test_resuming_releases_slowly_at_first_for_the_whole_fleet(database, add_webhook):
    gate = Gate()
    with Receiver(gate) as receiver, database.connect() as connection:
        add_webhook(receiver, max_in_flight=50, timeout="60s")
        pause_destination(connection, "shop", "upgrade")
        ids = [record(connection) for _ in range(40)]
        with fleet(database, 2):
            assert receiver.requests == []
            began = time.monotonic()
            assert resume_destination(connection, "shop") == 40
            # One at first, twice as many every second: nothing is answered, so what came is in flight.
            for number, request in enumerate(receiver.wait_for(8, 60), 1):
                assert number <= 2 ** int(request.at - began)
            gate.opened.set()
            wait_until(lambda: count(connection, "deliveries") == 0, "all are delivered")
        assert sorted(request.header("webhook-id") for request in receiver.requests) == ids


def test_resuming_releases_in_the_order_of_recording(database, add_webhook):
    with Receiver() as receiver, database.connect() as connection:
        add_webhook(receiver, max_in_flight=1)
        ids = [record(connection) for _ in range(5)]
        with relay_process(database.dsn) as relay:
            receiver.wait_for(5)
            pause_destination(connection, "shop", "upgrade")
            ids += [record(connection) for _ in range(30)]
            resume_destination(connection, "shop")
            ids += [record(connection) for _ in range(5)]
            receiver.wait_for(40, 60)
            assert relay.stop() == 0
        assert [request.header("webhook-id") for request in receiver.requests] == ids
