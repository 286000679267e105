"""Redrive, discard and replay: nothing vanishes, history stays, a second run does no harm (R04, R05, W13)."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import psycopg
import pytest

from outbox.bulk import Bulk
from outbox.dead_letters import count_dead, discarding, redriving
from outbox.destinations import pause_destination, remove_destination, resume_destination
from outbox.errors import BulkStopped, UsageError
from outbox.replay import find_replayable
from outbox.selection import Selection, select_deliveries
from tests.queues import add_destination, attempts, count, open_deliveries, record
from tests.waiting import wait_until

KILL = (
    "with dead as (delete from outbox.deliveries returning *) insert into outbox.dead_letters (delivery_id, event_id,"
    " destination_id, key, attempt, interruptions, reason, recorded_at, died_at)"
    " select id, event_id, destination_id, key, 5, 0, 'http_503', recorded_at, now() from dead"
)


def outbox(database, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "outbox", *arguments, "--dsn", database.dsn], check=False, capture_output=True, text=True
    )


def dead(connection, number: int) -> list[str]:
    add_destination(connection)
    ids = [record(connection, payload={"n": n}) for n in range(number)]
    connection.execute(KILL)
    return ids


def test_r04_a_redrive_keeps_id_and_history_and_starts_a_new_budget(database):
    with database.connect() as connection:
        [event_id] = dead(connection, 1)
        delivery_id = connection.execute("select delivery_id from outbox.dead_letters").fetchone()[0]
        assert redriving(connection, Selection(destination="shop"), "ada")(10) == [(delivery_id, event_id)]
        [row] = open_deliveries(connection)
        assert (row[0], row[1], row[3], row[5]) == (delivery_id, event_id, 0, None)
        assert attempts(connection, event_id) == [(delivery_id, 5, "redriven", "http_503")]
        assert connection.execute("select detail from outbox.attempts").fetchone() == ("by ada",)


def test_r05_two_redrives_at_once_lose_and_double_nothing(database):
    with database.connect() as first, database.connect() as second:
        ids = dead(first, 100)
        with first.transaction():
            one = redriving(first, Selection(destination="shop"), "ada")(60)
            two = redriving(second, Selection(destination="shop"), "grace")(60)
        assert len(one) == 60
        assert len(two) == 40
        assert set(one).isdisjoint(two)
        assert sorted(row[1] for row in open_deliveries(first)) == sorted(ids)
        assert count_dead(first, Selection(destination="shop")) == 0


def test_r05_an_interrupted_redrive_goes_on_at_the_next_run(database):
    with database.connect() as connection:
        dead(connection, 30)
        bulk = Bulk(connection, redriving(connection, Selection(destination="shop"), "ada"), limit=12).run()
        assert next(bulk) == 12
        bulk.close()
        assert count(connection, "dead_letters") + count(connection, "deliveries") == 30
        assert list(Bulk(connection, redriving(connection, Selection(destination="shop"), "ada")).run()) == [18]
        assert count(connection, "deliveries") == 30


def test_a_discard_is_written_into_the_timeline(database):
    with database.connect() as connection:
        [event_id] = dead(connection, 1)
        assert len(discarding(connection, Selection(destination="shop"), "ada")(10)) == 1
        assert count(connection, "dead_letters") == 0
        assert [row[2] for row in attempts(connection, event_id)] == ["discarded"]


def test_w13_what_a_removed_destination_left_is_held_until_discarded(database):
    with database.connect() as connection:
        add_destination(connection)
        ids = [record(connection) for _ in range(50)]
        assert remove_destination(connection, "shop") == 50
        assert record(connection) not in {row[1] for row in open_deliveries(connection)}
        status = json.loads(outbox(database, "status", "--json").stdout)
        assert [(d["state"], d["held"]) for d in status["destinations"]] == [("removed", 50)]
        done = outbox(database, "dead", "discard", "--destination", "shop", "--yes", "--by", "ada")
        assert (done.returncode, "discarded 50" in done.stderr) == (0, True), done.stderr
        assert count(connection, "deliveries") == 0
        assert {row[2] for event_id in ids for row in attempts(connection, event_id)} == {"discarded"}


def test_w13_what_a_removed_one_left_is_dropped_and_nothing_of_its_namesake(database):
    with database.connect() as connection:
        dead(connection, 2)
        record(connection)
        remove_destination(connection, "shop")
        kept = dead(connection, 1)
        done = outbox(database, "dead", "discard", "--destination", "shop", "--removed", "--yes")
        assert "discarded 3 deliveries" in done.stderr, done.stderr
        assert [str(row[0]) for row in connection.execute("select event_id from outbox.dead_letters")] == kept
        assert count(connection, "deliveries") == 0


def test_w13_a_removal_by_mistake_is_taken_back_with_what_is_held(database):
    with database.connect() as connection:
        add_destination(connection, settings={"url": "https://a.example"})
        ids = [record(connection) for _ in range(3)]
        remove_destination(connection, "shop")
        assert resume_destination(connection, "shop") == 3
        assert [row[1] for row in open_deliveries(connection)] == ids
        ids.append(record(connection))
        assert [row[1] for row in open_deliveries(connection)] == ids, "it gets new ones, too"
        remove_destination(connection, "shop")
        other = add_destination(connection)
        assert resume_destination(connection, "shop") == 0, "the name is another's by now"
        found = connection.execute("select id from outbox.destinations where removed_at is null").fetchall()
        assert found == [(other,)]


DELIVER = (
    "with done as (delete from outbox.deliveries returning *) insert into outbox.attempts"
    " (delivery_id, event_id, destination_id, attempt, started_at, outcome)"
    " select id, event_id, destination_id, 1, clock_timestamp(), 'delivered' from done"
)


def replayable(connection, until=None, **conditions):
    moment = until or connection.execute("select clock_timestamp()").fetchone()[0]
    return find_replayable(connection, Selection(**conditions), moment, "ada")


def test_a_replay_sends_a_delivered_one_again_once(database):
    with database.connect() as connection:
        add_destination(connection)
        event_id = record(connection)
        connection.execute(DELIVER)
        first, second = replayable(connection, destination="shop"), replayable(connection, destination="shop")
        assert (len(first), len(first.step(10)), first.step(10)) == (1, 1, [])
        assert second.step(10) == [], "it is open already"
        assert len(replayable(connection, destination="shop")) == 0
        assert [row[1] for row in open_deliveries(connection)] == [event_id]
        assert [row[2] for row in attempts(connection, event_id)] == ["delivered", "replayed"]


def test_two_replays_at_once_send_nothing_twice_even_if_it_is_delivered_meanwhile(database):
    with database.connect() as admin, database.connect() as slow, database.connect() as quick:
        add_destination(admin)
        record(admin)
        admin.execute(DELIVER)
        admin.execute(
            "create function wait() returns trigger language plpgsql as $$ begin"
            " if current_setting('application_name') = 'slow' then perform pg_advisory_xact_lock(1); end if;"
            " return new; end $$;"
            " create trigger wait before insert on outbox.deliveries for each row execute function wait()"
        )
        slow.execute("set application_name = 'slow'")
        replays = replayable(slow, destination="shop"), replayable(quick, destination="shop")
        taken = [[], []]

        def step(number: int) -> threading.Thread:
            thread = threading.Thread(target=lambda: taken[number].extend(replays[number].step(10)))
            thread.start()
            return thread

        admin.execute("select pg_advisory_lock(1)")
        first = step(0)
        wait_until(lambda: waits(admin, slow), "the first stands between its look and its write")
        second = step(1)
        wait_until(lambda: taken[1] or waits(admin, quick), "the second is done, or waits")
        admin.execute(DELIVER)
        admin.execute("select pg_advisory_unlock(1)")
        first.join()
        second.join()
        assert sorted(map(len, taken)) == [0, 1]
        assert [row[2] for row in attempts(admin)].count("replayed") == 1


def waits(admin, connection) -> bool:
    found = admin.execute("select 1 from pg_locks where pid = %s and not granted", [connection.info.backend_pid])
    return found.fetchone() is not None


def test_a_redrive_and_a_discard_at_once_take_different_ones(database):
    with database.connect() as first, database.connect() as second:
        dead(first, 20)
        with first.transaction():
            redriven = redriving(first, Selection(destination="shop"), "ada")(12)
            discarded = discarding(second, Selection(destination="shop"), "grace")(100)
        assert (len(redriven), len(discarded)) == (12, 8)
        assert set(redriven).isdisjoint(discarded)
        assert (count(first, "deliveries"), count(first, "dead_letters")) == (12, 0)


def test_an_interrupted_replay_goes_on_with_the_same_until_and_doubles_nothing(database):
    with database.connect() as connection:
        add_destination(connection)
        ids = [record(connection) for _ in range(20)]
        connection.execute(DELIVER)
        first = replayable(connection, destination="shop")
        assert len(first.step(12)) == 12
        connection.execute(DELIVER)
        second = replayable(connection, first.until, destination="shop")
        assert len(second) == 8
        assert [taken.event_id for taken in second.step(100)] == ids[12:]


def test_a_replay_passes_over_what_is_open_dead_or_removed(database):
    with database.connect() as connection:
        add_destination(connection)
        add_destination(connection, "gone")
        record(connection)
        connection.execute(DELIVER)
        connection.execute("update outbox.destinations set removed_at = now() where name = 'gone'")
        record(connection)
        connection.execute(KILL)
        record(connection)
        assert len(replayable(connection, event_type="order.*")) == 1


def test_a_redrive_does_not_take_again_what_dies_again_meanwhile(database):
    with database.connect() as connection:
        dead(connection, 30)
        step = redriving(connection, Selection(destination="shop"), "ada")
        taken = 0
        while found := step(10):
            taken += len(found)
            connection.execute(KILL)
            assert taken <= 30, "it would never end"
        assert taken == 30
        assert count(connection, "dead_letters") == 30


def test_r05_naming_an_event_that_is_not_dead_is_refused_and_changes_nothing(database):
    with database.connect() as connection:
        [event_id] = dead(connection, 1)
        alive = record(connection)
        for verb in ("redrive", "discard"):
            done = outbox(database, "dead", verb, "--event", event_id, "--event", alive, "--yes")
            assert done.returncode == 1
            assert f"event {alive} has no such dead letter (shop waiting)" in done.stderr
        unknown = outbox(database, "dead", "redrive", "--event", "01990000-0000-7000-8000-000000000000", "--yes")
        assert (unknown.returncode, "no event" in unknown.stderr) == (1, True)
        assert count(connection, "dead_letters") == 1
        waiting = outbox(database, "replay", "--event", alive, "--yes")
        assert (waiting.returncode, "none of these events has a delivered" in waiting.stderr) == (1, True)


def test_discarding_some_of_a_removed_destination_leaves_what_it_holds(database):
    with database.connect() as connection:
        dead(connection, 1)
        record(connection, "user.new")
        remove_destination(connection, "shop")
        some = outbox(database, "dead", "discard", "--destination", "shop", "--type", "order.*", "--yes")
        assert "discarded 1 deliveries" in some.stderr
        assert count(connection, "deliveries") == 1


def test_what_runs_against_a_wall_stops_by_itself(database):
    with database.connect() as connection:
        dead(connection, 60)
        step = redriving(connection, Selection(destination="shop"), "ada")

        def failing(batch):
            taken = step(min(batch, 20))
            connection.execute(
                "insert into outbox.attempts"
                " (delivery_id, event_id, destination_id, attempt, started_at, outcome, reason)"
                " select id, event_id, destination_id, 1, clock_timestamp(), 'retry', 'http_503' from outbox.deliveries"
            )
            return taken

        with pytest.raises(BulkStopped, match="stopped after 20: of the last 20, 20 failed again and 0 were delivered"):
            list(Bulk(connection, failing).run())
        assert count(connection, "dead_letters") == 40


def test_bulk_work_needs_a_filter():
    with pytest.raises(UsageError, match="give a filter"):
        select_deliveries(destination=None, event_type=None, events=[])


def test_without_a_terminal_bulk_work_needs_yes_and_changes_nothing(database):
    with database.connect() as connection:
        dead(connection, 3)
        refused = outbox(database, "dead", "redrive", "--destination", "shop")
        assert refused.returncode == 2
        assert "add --yes" in refused.stderr
        assert "3 deliveries match" in refused.stderr
        assert count(connection, "dead_letters") == 3
        shown = outbox(database, "dead", "redrive", "--destination", "shop", "--dry-run")
        assert shown.returncode == 0
        assert count(connection, "dead_letters") == 3


def test_a_canary_that_nobody_tries_stops_the_redrive(database):
    with database.connect() as connection:
        dead(connection, 20)
        step = redriving(connection, Selection(destination="shop"), "ada")
        bulk = Bulk(connection, step, canary=5, canary_seconds=0.2)
        with pytest.raises(Exception, match="5 of the first 5 were not tried in time"):
            list(bulk.run())
        assert count(connection, "dead_letters") == 15


def test_a_type_prefix_selects_its_events_only(database):
    with database.connect() as connection:
        add_destination(connection)
        for event_type in ("order.paid", "order.cancelled", "orders.x", "user.new"):
            record(connection, event_type)
        connection.execute(KILL)
        assert count_dead(connection, Selection(event_type="order.*")) == 2
        assert count_dead(connection, Selection(event_type="order.paid")) == 1


def test_the_role_of_relays_may_repair_and_may_not_change_destinations(database, login):
    with database.connect() as admin:
        record(admin)
        admin.execute(KILL)
    relay = login("outbox_relay")
    assert len(list(Bulk(relay, redriving(relay, Selection(destination="shop"), "ada")).run())) == 1
    pause_destination(relay, "shop", "lunch")
    assert resume_destination(relay, "shop") == 1
    relay.execute(KILL)
    assert len(discarding(relay, Selection(destination="shop"), "ada")(10)) == 1
    for forbidden in (remove_destination, lambda connection, name: add_destination(connection, "other")):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            forbidden(relay, "shop")
