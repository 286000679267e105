"""kill -9 at each point of an attempt, forced and not by chance: the next relay delivers, history tells (C01)."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from tests.processes import relay_process
from tests.queues import attempts, count, open_deliveries, record
from tests.receivers import Receiver, hanging, status
from tests.waiting import wait_until

LEASE = ("--lease", "6s")


@pytest.fixture
def connection(database):
    with database.connect() as connection:
        yield connection


def history(connection, event_id: str) -> list[tuple[int, str]]:
    return [(attempt, outcome) for _, attempt, outcome, _ in attempts(connection, event_id)]


def deliver_by_the_next(database, connection) -> None:
    """Start another relay and wait until nothing is open; nobody helps."""
    with relay_process(database.dsn, *LEASE) as relay:
        wait_until(lambda: count(connection, "deliveries") == 0, "delivered by the next relay", 60)
        assert relay.stop() == 0


def assert_same_identity(receiver: Receiver, event_id: str, requests: int) -> None:
    assert len(receiver.requests) == requests
    assert {request.header("webhook-id") for request in receiver.requests} == {event_id}
    assert len({request.body for request in receiver.requests}) == 1


def test_c01_killed_after_the_claim_and_before_the_connection(database, connection, add_webhook):
    with unreachable_port() as port:
        receiver = Receiver(port=port)
        add_webhook(receiver, timeout="4s")
        with relay_process(database.dsn, *LEASE) as relay:
            relay.started()
            event_id = record(connection)
            wait_until(lambda: open_deliveries(connection)[0][5] is not None, "claimed")
            relay.kill()
    with receiver:
        deliver_by_the_next(database, connection)
        assert_same_identity(receiver, event_id, 1)
    assert history(connection, event_id) == [(1, "interrupted"), (2, "delivered")]


def test_c01_killed_in_the_middle_of_the_request(database, connection, add_webhook):
    with Receiver(hanging(), status(200)) as receiver:
        add_webhook(receiver, timeout="4s")
        with relay_process(database.dsn, *LEASE) as relay:
            relay.started()
            event_id = record(connection)
            receiver.wait_for(1)
            relay.kill()
        deliver_by_the_next(database, connection)
        assert_same_identity(receiver, event_id, 2)
    assert history(connection, event_id) == [(1, "interrupted"), (2, "delivered")]


def test_c01_killed_after_the_answer_and_before_the_commit(database, connection, add_webhook):
    # the settling statement waits for a row that is locked here, and dies with its session
    locked = asyncio.Event()

    async def answer_once_locked(turn) -> None:
        await locked.wait()
        await status(200)(turn)

    with Receiver(answer_once_locked, status(200)) as receiver, database.connect() as locker:
        add_webhook(receiver, timeout="4s")
        with relay_process(database.dsn, *LEASE) as relay, locker.transaction():
            relay.started()
            event_id = record(connection)
            receiver.wait_for(1)
            locker.execute("select from outbox.deliveries for update")
            receiver._loop.call_soon_threadsafe(locked.set)
            [settling] = wait_until(lambda: connection.execute(SETTLING).fetchall(), "the settling statement waits")
            relay.kill()
            connection.execute("select pg_terminate_backend(%s, 10000)", settling)
        deliver_by_the_next(database, connection)
        assert_same_identity(receiver, event_id, 2)
    assert history(connection, event_id) == [(1, "interrupted"), (2, "delivered")]


def test_c01_killed_during_backoff(database, connection, add_webhook):
    with Receiver(status(500), status(200)) as receiver:
        add_webhook(receiver, timeout="4s", schedule=["3s"])
        with relay_process(database.dsn, *LEASE) as relay:
            relay.started()
            event_id = record(connection)
            wait_until(lambda: history(connection, event_id) == [(1, "retry")], "the failure is settled")
            relay.kill()
        deliver_by_the_next(database, connection)
        assert_same_identity(receiver, event_id, 2)
    assert history(connection, event_id) == [(1, "retry"), (2, "delivered")]


SETTLING = (
    "select pid from pg_stat_activity where application_name = 'outbox-relay settlements'"
    " and wait_event_type = 'Lock' and datname = current_database()"
)


@contextlib.contextmanager
def unreachable_port():
    """Yield a loopback port that answers no connection: its queue is full, as of a host that is overloaded."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(10):
            filler = stack.enter_context(socket.socket())
            filler.settimeout(0.5)
            if filler.connect_ex(listener.getsockname()) != 0:
                break
        else:
            raise AssertionError("the queue of the listening socket never filled")
        yield listener.getsockname()[1]
