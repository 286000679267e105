"""What status says, for every state a delivery can be in."""

from __future__ import annotations

import uuid

import pytest

from outbox.counts import count_open
from outbox.errors import UsageError
from outbox.problems import Dangers, find_problems
from outbox.status import overview, timeline
from tests.queues import add_destination, record

LEASED = "lease_token = 1, relay_id = 7, attempt = 1, leased_until = now() + interval '1 minute'"
LAPSED = "lease_token = 1, relay_id = 7, attempt = 1, leased_until = now() - interval '1 minute'"
KILL = (
    "with dead as (delete from outbox.deliveries where event_id = %s returning *) insert into outbox.dead_letters"
    " (delivery_id, event_id, destination_id, key, attempt, interruptions, reason, recorded_at, died_at)"
    " select id, event_id, destination_id, key, 5, 0, 'http_503', recorded_at, now() from dead"
)


@pytest.fixture
def connection(database):
    with database.connect() as connection:
        yield connection


def set_delivery(connection, event_id, changes) -> None:
    connection.execute(f"update outbox.deliveries set {changes} where event_id = %s", [event_id])  # noqa: S608 - constants


def add_relay(connection, *, serves=("shop",), age="0 s", state="running", doorbell="listening") -> int:
    [(relay_id,)] = connection.execute(
        "insert into outbox.relays (name, host, pid, version, concurrency, serves, state, doorbell, heartbeat_at)"
        " values ('r', 'h', 1, '0.1.0', 10, jsonb_build_object('destinations', %s::text[]), %s, %s,"
        " clock_timestamp() - %s::interval) returning id",
        [list(serves), state, doorbell, age],
    ).fetchall()
    return relay_id


def counted(connection, name="shop") -> dict[str, int]:
    [found] = [d for d in overview(connection)["destinations"] if d["name"] == name]
    return {
        state: found[state] for state in ("waiting", "scheduled", "leased", "held", "blocked", "dead") if found[state]
    }


def state_of(connection, event_id) -> tuple[str, str]:
    [delivery] = timeline(connection, event_id)["deliveries"]
    return delivery["state"], delivery["why"]


def codes(connection) -> list[str]:
    return [problem["code"] for problem in overview(connection)["problems"]]


# ------------------------------------------------------------------ states: overview and timeline agree


def test_each_state_is_counted_and_explained(connection):
    add_destination(connection)
    relay_id = add_relay(connection)
    waiting, scheduled, leased, lapsed, dead, head, follower = (
        record(connection, key=key) for key in (None, None, None, None, None, "k", "k")
    )
    set_delivery(connection, scheduled, "due_at = now() + interval '1 hour'")
    set_delivery(connection, leased, LEASED)
    set_delivery(connection, lapsed, LAPSED)
    connection.execute(KILL, [dead])
    assert counted(connection) == {"waiting": 3, "scheduled": 1, "leased": 1, "blocked": 1, "dead": 1}
    said = {event: state_of(connection, event) for event in (waiting, scheduled, leased, lapsed, dead, head, follower)}
    assert [state for state, _ in said.values()] == [
        "waiting",
        "scheduled",
        "leased",
        "waiting",
        "dead",
        "waiting",
        "blocked",
    ]
    assert said[waiting][1].startswith("due since")
    assert said[scheduled][1].startswith("scheduled for")
    assert said[leased][1].startswith("being sent by relay 7, leased until")
    assert "died or stalled; to be recovered" in said[lapsed][1]
    assert said[dead][1] == "given up after attempt 5: http_503; redrive or discard it"
    assert said[follower][1] == f"waits for event {head} of the same key 'k'"
    assert relay_id > 0


@pytest.mark.parametrize("state", ["paused", "tripped", "disabled"])
def test_what_a_destination_holds_is_held_whatever_its_due_time(connection, state):
    add_destination(connection)
    now, later, first, second = (record(connection, key=key) for key in (None, None, "k", "k"))
    set_delivery(connection, later, "due_at = now() + interval '1 hour'")
    connection.execute("update outbox.destinations set state = %s, state_reason = 'because'", [state])
    assert counted(connection) == {"held": 4}
    for event in (now, later, first, second):
        said, why = state_of(connection, event)
        assert said == "held"
        assert f"destination shop is {state} since" in why
        assert "because because" in why


def test_a_destination_that_asked_for_a_pause_holds_until_then(connection):
    add_destination(connection)
    event = record(connection)
    connection.execute("update outbox.destinations set held_until = now() + interval '5 minutes'")
    assert counted(connection) == {"held": 1}
    assert "is held until" in state_of(connection, event)[1]
    connection.execute("update outbox.destinations set held_until = now() - interval '1 second'")
    assert counted(connection) == {"waiting": 1}


def test_a_dead_letter_closes_its_key_only_where_the_policy_says_so(connection):
    add_destination(connection, policy={"on_dead": "block"})
    add_destination(connection, "other")
    dead, after = record(connection, key="k"), record(connection, key="k")
    connection.execute(KILL, [dead])
    assert counted(connection) == {"blocked": 1, "dead": 1}
    assert counted(connection, "other") == {"waiting": 1, "dead": 1}
    said = {d["destination"]: (d["state"], d["why"]) for d in timeline(connection, after)["deliveries"]}
    assert said["shop"][0] == "blocked"
    assert f"closed by dead event {dead} (on_dead = block)" in said["shop"][1]
    assert said["other"][0] == "waiting"


def test_a_retry_says_until_when_and_after_what(connection):
    add_destination(connection)
    event = record(connection)
    set_delivery(connection, event, "attempt = 2, due_at = now() + interval '1 hour'")
    connection.execute(
        "insert into outbox.attempts"
        " (delivery_id, event_id, destination_id, attempt, started_at, outcome, reason, status)"
        " select id, event_id, destination_id, 2, now(), 'retry', 'http_500', 500 from outbox.deliveries"
    )
    state, why = state_of(connection, event)
    assert state == "scheduled"
    assert why.startswith("backoff until ")
    assert why.endswith("after attempt 2: http_500")
    [attempt] = timeline(connection, event)["deliveries"][0]["attempts"]
    assert (attempt["attempt"], attempt["outcome"], attempt["status"]) == (2, "retry", 500)
    assert attempt["started_at"].endswith("+00:00")


def test_the_oldest_waiting_is_the_longest_due_one_that_could_be_sent(connection):
    add_destination(connection)
    add_destination(connection, "paused")
    event = record(connection)
    connection.execute("update outbox.deliveries set due_at = now() - interval '100 s' where destination_id = 1")
    connection.execute("update outbox.deliveries set due_at = now() - interval '900 s' where destination_id = 2")
    connection.execute("update outbox.destinations set state = 'paused' where name = 'paused'")
    assert event
    found = overview(connection)
    assert 100 <= found["totals"]["oldest_waiting_seconds"] < 400
    assert [d["oldest_waiting_seconds"] for d in found["destinations"] if d["name"] == "paused"] == [None]


def test_the_last_hour_comes_from_the_counts_and_history_is_not_read(connection):
    add_destination(connection)
    connection.execute(
        "insert into outbox.outcome_counts (destination_id, minute, delivered, retried, died) values"
        " (1, now(), 5, 2, 1), (1, now() - interval '30 minutes', 5, 0, 0), (1, now() - interval '2 hours', 100, 9, 9)"
    )
    connection.execute("alter table outbox.attempts rename to hidden")
    [found] = overview(connection)["destinations"]
    assert (found["delivered_last_hour"], found["failed_last_hour"]) == (10, 3)


def test_an_event_that_nobody_wanted_has_no_destination(connection):
    add_destination(connection, event_types=["user.*"])
    assert timeline(connection, record(connection, "order.paid"))["deliveries"] == []


def test_an_unknown_event_is_an_error_and_a_word_is_no_event(connection):
    with pytest.raises(LookupError, match="rolled back, never recorded, or removed by retention"):
        timeline(connection, str(uuid.uuid4()))
    with pytest.raises(UsageError, match="'order-7' is not an event id"):
        timeline(connection, "order-7")


def test_more_than_can_be_counted_in_time_is_estimated_and_said(connection):
    add_destination(connection)
    connection.execute("select outbox.record_event('order.paid') from generate_series(1, 3000)")
    exact = count_open(connection)
    assert (exact.by_destination[1].waiting, exact.is_estimate) == (3000, False)
    estimated = count_open(connection, seconds=0.001)
    assert (estimated.by_destination[1].waiting, estimated.is_estimate) == (3000, True), "the sample is the whole"


# ------------------------------------------------------------------ problems


def test_o09_work_without_a_relay_is_a_problem_and_an_idle_system_is_none(connection):
    assert codes(connection) == []
    add_destination(connection)
    assert codes(connection) == []
    event = record(connection)
    assert codes(connection) == ["no_relay"]
    assert state_of(connection, event)[1] == "no relay is alive; start outbox-relay"
    add_relay(connection)
    assert codes(connection) == []


def test_o09_relays_that_leave_a_destination_out_are_a_problem(connection):
    add_destination(connection)
    event = record(connection)
    add_relay(connection, serves=["other"])
    assert codes(connection) == ["not_served"]
    assert "no running relay serves destination shop" in state_of(connection, event)[1]


def test_o09_a_relay_that_serves_nothing_serves_nothing(connection):
    add_destination(connection)
    record(connection)
    add_relay(connection, serves=[])
    assert codes(connection) == ["not_served"]


def test_o09_lapsed_leases_wait_to_be_recovered_and_are_not_leased(connection):
    add_destination(connection)
    set_delivery(connection, record(connection), LAPSED)
    found = overview(connection)
    assert (found["totals"]["leased"], found["totals"]["waiting"]) == (0, 1)
    lapsed = next(problem for problem in found["problems"] if problem["code"] == "lapsed_leases")
    assert "lapsed leases, to be recovered: 1" in lapsed["message"]


def test_o09_a_paused_destination_is_a_problem_once_it_holds_something(connection):
    add_destination(connection)
    connection.execute("update outbox.destinations set state = 'paused', state_reason = 'lunch (by ada)'")
    assert codes(connection) == []
    record(connection)
    [problem] = overview(connection)["problems"]
    assert problem["code"] == "destination_paused"
    assert "lunch (by ada); deliveries held: 1" in problem["message"]
    assert problem["remedy"] == "outbox destinations resume shop"


def test_a_delivery_that_is_due_too_long_is_a_problem(connection):
    add_destination(connection)
    add_relay(connection)
    set_delivery(connection, record(connection), "due_at = now() - interval '90 s'")
    assert codes(connection) == ["oldest_due"]
    assert overview(connection, max_due_seconds=120)["problems"] == []


def test_dead_letters_are_a_problem_until_they_are_seen_to(connection):
    add_destination(connection)
    connection.execute(KILL, [record(connection)])
    assert codes(connection) == ["dead_letters"]


def test_a_silent_relay_and_a_missing_doorbell_are_problems(connection):
    add_destination(connection)
    add_relay(connection, age="60 s")
    assert codes(connection) == ["lost_relay"]
    add_relay(connection, doorbell="polling")
    connection.execute("update outbox.relays set started_at = now() - interval '1 day'")
    assert codes(connection) == ["lost_relay", "doorbell_degraded"]
    add_relay(connection)
    connection.execute("update outbox.relays set started_at = now() - interval '1 day'")
    assert codes(connection) == ["lost_relay"], "one that listens is enough to be told"
    add_relay(connection, age="2 hours")
    add_relay(connection, age="60 s", state="stopped")
    assert codes(connection) == ["lost_relay"], "those said good-bye, or are long gone"


def test_a_relay_that_died_and_was_restarted_is_no_problem_until_it_goes_on_like_that(connection):
    add_destination(connection)
    add_relay(connection, age="60 s")
    add_relay(connection, age="90 s")
    connection.execute("update outbox.relays set started_at = now() - interval '1 day'")
    add_relay(connection)
    assert codes(connection) == ["lost_relay"], "one has a successor, the other has none"
    add_relay(connection)
    assert codes(connection) == []
    add_relay(connection, age="30 s")
    connection.execute("update outbox.relays set started_at = now() - interval '1 minute' where id = 5")
    add_relay(connection)
    [problem] = overview(connection)["problems"]
    assert problem["message"].endswith("others having taken their place: 3")


def test_a_pinned_horizon_is_named_with_pid_and_query_age(connection, database, monkeypatch):
    monkeypatch.setattr("outbox.status.PIN_SECONDS", 0.0)
    with database.connect(application_name="report") as other, other.transaction():
        other.execute("set transaction isolation level repeatable read")
        other.execute("select 1 from outbox.events")
        [problem] = overview(connection)["problems"]
        assert problem["code"] == "pinned_horizon"
        assert f"session {other.info.backend_pid} (report) is idle in transaction" in problem["message"]
        assert "its query for" in problem["message"]
        assert f"pg_terminate_backend({other.info.backend_pid})" in problem["remedy"]


@pytest.mark.parametrize(("version", "remedy"), [(1, "run `outbox migrate`"), (999, "upgrade outbox-relay here")])
def test_a_schema_of_another_version_is_a_problem(version, remedy):
    found = {
        "database": {"schema_version": version},
        "relays": [],
        "totals": dict.fromkeys(("waiting", "scheduled", "leased", "blocked"), 0),
        "destinations": [],
    }
    [problem] = find_problems(found, Dangers())
    assert (problem["code"], problem["remedy"]) == ("schema_mismatch", remedy)


def test_a_removed_destination_shows_while_something_is_left(connection):
    add_destination(connection)
    event = record(connection)
    connection.execute("update outbox.destinations set removed_at = now()")
    [found] = overview(connection)["destinations"]
    assert (found["state"], found["held"]) == ("removed", 1)
    assert state_of(connection, event)[0] == "held"
    assert codes(connection) == ["destination_removed"]
    connection.execute("delete from outbox.deliveries")
    assert overview(connection)["destinations"] == []


# ------------------------------------------------------------------ rights


def test_a_reader_sees_the_overview_and_timelines_without_details(login, database):
    with database.connect() as admin:
        event = record(admin, payload={"card": "SECRET"})
        admin.execute(
            "insert into outbox.attempts (delivery_id, event_id, destination_id, attempt, started_at, outcome, detail)"
            " select id, event_id, destination_id, 1, now(), 'retry', 'SECRET' from outbox.deliveries"
        )
        assert "SECRET" in str(timeline(admin, event))
    reader = login("outbox_reader")
    assert overview(reader)["totals"]["waiting"] == 1
    seen = timeline(reader, event)
    assert seen["deliveries"][0]["attempts"][0]["outcome"] == "retry"
    assert "SECRET" not in str(seen)
