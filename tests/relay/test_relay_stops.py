"""Stopping, stalling and dying: nothing is lost, nothing is charged that was not tried, history says what happened."""

from __future__ import annotations

import asyncio
import signal

import pytest
import uvloop

from relays.relay import Relay
from relays.settings import RelaySettings
from tests.processes import relay_process
from tests.queues import attempts, count, open_deliveries, record
from tests.receivers import Receiver, delayed, hanging, status
from tests.waiting import wait_until


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_c02_a_stop_lets_quick_attempts_finish_and_gives_the_slow_one_back(database, add_webhook, number):
    with Receiver(delayed(0.5, status(200))) as quick, Receiver(hanging()) as slow:
        add_webhook(quick, "quick", max_in_flight=10)
        add_webhook(slow, "slow", timeout="30s")
        with database.connect() as connection, relay_process(database.dsn, "--grace", "1.5s") as relay:
            relay.started()
            event_id = record(connection)
            quick.wait_for(1)
            slow.wait_for(1)
            relay.signal(number)
            assert relay.ended() == 0
            relay.wait_for(rf"gave back event {event_id} to destination slow, attempt 1 was under way")
            [row] = open_deliveries(connection)
            assert (row[3], row[5]) == (0, None), "not charged, not leased"
            assert sorted(row[2] for row in attempts(connection, event_id)) == ["delivered", "released"]


def test_c02_a_second_signal_gives_everything_back_at_once(database, add_webhook):
    with Receiver(hanging()) as slow, database.connect() as connection:
        add_webhook(slow, "slow", timeout="30s")
        with relay_process(database.dsn, "--grace", "60s") as relay:
            relay.started()
            record(connection)
            slow.wait_for(1)
            relay.signal(signal.SIGTERM)
            relay.wait_for("stopping")
            relay.signal(signal.SIGTERM)
            assert relay.ended() == 1
        assert open_deliveries(connection)[0][5] is None


def test_c01_a_killed_relay_s_delivery_is_recovered_by_another_with_the_same_identity(database, add_webhook):
    with Receiver(hanging(), status(200)) as receiver, database.connect() as connection:
        add_webhook(receiver, timeout="5s")
        with (
            relay_process(database.dsn, "--lease", "8s") as first,
            relay_process(database.dsn, "--lease", "8s") as second,
        ):
            first.started()
            event_id = record(connection)
            receiver.wait_for(1)
            holder = connection.execute("select pid from outbox.relays r join outbox.deliveries d on d.relay_id = r.id")
            pid = holder.fetchone()[0]
            (first if first.process.pid == pid else second).kill()
            receiver.wait_for(2)
            wait_until(lambda: count(connection, "deliveries") == 0, "delivered by the other")
            (second if first.process.pid == pid else first).stop()
        assert [(row[1], row[2]) for row in attempts(connection, event_id)] == [(1, "interrupted"), (2, "delivered")]
        first_request, second_request = receiver.requests
        assert first_request.header("webhook-id") == second_request.header("webhook-id") == event_id
        assert first_request.body == second_request.body


def test_c03_a_stalled_relay_that_lost_its_lease_changes_nothing(database, add_webhook):
    with Receiver(delayed(1, status(500)), status(200)) as receiver, database.connect() as connection:
        add_webhook(receiver, timeout="2s")
        with relay_process(database.dsn, "--lease", "5s") as stalled:
            stalled.started()
            event_id = record(connection)
            receiver.wait_for(1)
            stalled.signal(signal.SIGSTOP)
            with relay_process(database.dsn, "--lease", "5s") as other:
                other.started()
                receiver.wait_for(2)
                wait_until(lambda: count(connection, "deliveries") == 0, "delivered by the other")
                stalled.signal(signal.SIGCONT)
                line = stalled.wait_for(f"lease for event {event_id} to destination shop was lost")
                assert "discarded" in line
                other.stop()
            event_2 = record(connection)
            wait_until(lambda: attempts(connection, event_2), "the stalled relay goes on working")
            assert stalled.stop() == 0
        assert [(row[1], row[2]) for row in attempts(connection, event_id)] == [(1, "interrupted"), (2, "delivered")]


def test_restarts_under_load_leave_no_lease_behind(database, add_webhook):
    with Receiver(delayed(0.02, status(200))) as receiver, database.connect() as connection:
        add_webhook(receiver, max_in_flight=2)
        for _ in range(60):
            record(connection)
        for _ in range(4):
            with relay_process(database.dsn, "--grace", "5s") as relay:
                relay.started()
                assert relay.stop() == 0
            assert [row for row in open_deliveries(connection) if row[5] is not None] == []
        with relay_process(database.dsn, "--drain") as relay:
            assert relay.ended(60) == 0
        assert len(receiver.requests) == len({request.header("webhook-id") for request in receiver.requests}) == 60


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_nothing_of_a_relay_outlives_its_run(database, loop_factory):
    """A task that still waits on a connection when it is closed makes uvloop abort the process."""

    async def left_over() -> set:
        relay = Relay(RelaySettings(dsn=database.dsn))
        running = asyncio.create_task(relay.run())
        while relay._cycle is None or relay._cycle._sweeping is None:  # noqa: ASYNC110 - nothing tells when a sweep begins
            await asyncio.sleep(0)
        relay.stop()
        await running
        return asyncio.all_tasks() - {asyncio.current_task()}

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        for _ in range(5):
            assert runner.run(left_over()) == set()
