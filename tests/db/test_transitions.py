"""What is kept of a destination's changes of state: by whoever made them, in order, bounded."""

from __future__ import annotations

import pytest

from outbox.destinations import find_destination, pause_destination, resume_destination
from outbox.transitions import list_transitions
from relays.queries import query
from tests.queues import add_destination


@pytest.fixture
def connection(database):
    with database.connect() as connection:
        add_destination(connection)
        yield connection


def kept(connection, limit: int = 10) -> list:
    found = list_transitions(connection, find_destination(connection, "shop").id, limit)
    return [(each["former_state"], each["state"], each["reason"]) for each in found]


def hold(connection, state: str, reason: str, seconds: float | None = None) -> None:
    parameters = {"destination_id": 1, "state": state, "reason": reason, "seconds": seconds}
    connection.execute(query("hold_destination"), parameters)


def test_each_change_is_kept_with_its_reason_the_latest_first(connection):
    assert kept(connection) == []
    hold(connection, "tripped", "10 of 10 attempts failed", 30)
    connection.execute(query("recover_destination"), {"destination_id": 1})
    pause_destination(connection, "shop", "upgrade (by ada)")
    resume_destination(connection, "shop")
    hold(connection, "disabled", "answered 410")
    assert kept(connection) == [
        ("active", "disabled", "answered 410"),
        ("paused", "active", None),
        ("active", "paused", "upgrade (by ada)"),
        ("tripped", "active", None),
        ("active", "tripped", "10 of 10 attempts failed"),
    ]


def test_what_changes_no_state_is_not_kept(connection):
    hold(connection, "held", "answered 503 with retry-after 60 s", 60)
    hold(connection, "tripped", "10 of 10 attempts failed", 30)
    hold(connection, "tripped", "the probe failed", 60)
    connection.execute("update outbox.destinations set settings = '{}'")
    assert len(kept(connection)) == 1


def test_a_destination_that_trips_all_the_time_keeps_its_last_hundred(connection):
    add_destination(connection, "quiet")
    connection.execute("update outbox.destinations set state = 'paused', state_reason = 'x' where name = 'quiet'")
    for number in range(70):
        hold(connection, "tripped", f"trip {number}", 30)
        connection.execute(query("recover_destination"), {"destination_id": 1})
    found = kept(connection, 1000)
    assert len(found) == 100
    assert found[1] == ("active", "tripped", "trip 69")
    assert connection.execute("select count(*) from outbox.transitions where destination_id = 2").fetchone() == (1,)
