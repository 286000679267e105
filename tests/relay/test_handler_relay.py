"""Relay processes with `--app`: what they claim, what they never claim, and what a blocking handler costs."""

from __future__ import annotations

import pytest

from tests.processes import relay_process
from tests.queues import add_destination, attempts, count, open_deliveries, record
from tests.waiting import wait_until

APP = ("--app", "tests.apps.shop")
POLICY = {"timeout": "500ms", "base": "50ms", "cap": "100ms", "max_attempts": 3}


@pytest.fixture
def connection(database):
    with database.connect() as connection:
        yield connection


def outcomes(connection, event_id) -> list:
    return [row[2:] for row in attempts(connection, event_id)]


def test_events_reach_their_handlers(database, connection):
    add_destination(connection, "work", sink="handler", event_types=("order.paid", "stock.*"))
    paid, counted = record(connection, "order.paid"), record(connection, "stock.item.sold", {"n": 7})
    with relay_process(database.dsn, *APP, "--drain") as relay:
        assert relay.ended() == 0
    assert outcomes(connection, paid) == [("delivered", None)]
    detail = connection.execute("select detail from outbox.attempts where event_id = %s", [counted]).fetchone()
    assert detail == ("counted 7",)


def test_a_handler_chooses_the_outcome(database, connection):
    add_destination(connection, "work", sink="handler", event_types=("later", "never", "exit"), policy=POLICY)
    later, never, leave = (record(connection, event_type) for event_type in ("later", "never", "exit"))
    with relay_process(database.dsn, *APP) as relay:
        wait_until(lambda: count(connection, "deliveries") == 0, "all settled")
        assert relay.stop() == 0
    assert outcomes(connection, later) == [("retry", "retry_later"), ("delivered", None)]
    assert outcomes(connection, never) == [("dead", "gave_up")]
    assert outcomes(connection, leave) == [("retry", "handler_error")] * 2 + [("dead", "handler_error")]


def test_an_unknown_handler_is_never_claimed_and_the_others_go_on(database, connection):
    add_destination(connection, "known", sink="handler", event_types=("order.paid",))
    add_destination(connection, "unknown", sink="handler", event_types=("order.lost",))
    record(connection, "order.lost")
    record(connection, "order.paid")
    with relay_process(database.dsn, *APP) as relay:
        relay.wait_for(r"destination unknown is not served here: no handler for 'order.lost'.*--app")
        wait_until(lambda: count(connection, "attempts") == 1, "the known one")
        assert relay.stop() == 0
    [left] = open_deliveries(connection)
    assert left[3] == 0
    assert left[5] is None


def test_an_app_that_is_not_there_ends_the_start_with_usage(database, connection):
    add_destination(connection, "work", sink="handler", event_types=("order.paid",))
    with relay_process(database.dsn, "--app", "no_such_module") as relay:
        relay.wait_for(r"--app no_such_module: there is no module")
        assert relay.ended() == 2
    assert "Traceback" not in relay.output


@pytest.mark.parametrize("event_type", ["slow.loop", "slow.cpu"])
def test_a_handler_that_blocks_the_loop_for_two_leases_keeps_its_lease(database, connection, event_type):
    add_destination(connection, "work", sink="handler", event_types=(event_type,), policy=POLICY)
    event_id = record(connection, event_type, {"seconds": 6})
    options = (*APP, "--lease", "3s", "--poll", "100ms")
    with relay_process(database.dsn, *options) as first:
        wait_until(lambda: open_deliveries(connection)[0][5], "the claim")
        with relay_process(database.dsn, *options) as second:
            second.started()
            wait_until(lambda: count(connection, "deliveries") == 0, "the end")
            assert second.stop() == 0
        assert first.stop() == 0
    assert outcomes(connection, event_id) == [("delivered", None)]


@pytest.mark.parametrize("event_type", ["slow.wait", "slow.thread"])
def test_a_handler_past_its_deadline_is_timed_out_and_the_relay_stops_in_time(database, connection, event_type):
    add_destination(connection, "work", sink="handler", event_types=(event_type,), policy=POLICY)
    event_id = record(connection, event_type, {"seconds": 60})
    with relay_process(database.dsn, *APP, "--grace", "1s") as relay:
        wait_until(lambda: count(connection, "dead_letters") == 1, "the end of its tries")
        assert relay.stop(10) == 0
    assert outcomes(connection, event_id) == [("retry", "timeout")] * 2 + [("dead", "timeout")]
