"""Retention removes what is finished and nothing else (field case O04)."""

from __future__ import annotations

import contextlib
import threading
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

import outbox
from outbox.prune import DEFAULT_AHEAD_DAYS, _checked_steps, _Pause, expired_partitions, prune
from tests.queues import add_destination, count
from tests.waiting import wait_until

KEEP = timedelta(days=30)
OLD_EVENTS = """
    insert into outbox.events (id, type, payload, recorded_at)
    select encode(overlay(uuid_send(gen_random_uuid())
        placing substr(uuid_send(outbox.uuid_floor(t.moment)), 1, 6) from 1), 'hex')::uuid, 'order.paid', '{}', t.moment
    from (select now() - %(days)s * interval '1 day' as moment from generate_series(1, %(rows)s)) t
    returning id
"""
OPEN = """
    insert into outbox.deliveries (
        event_id, destination_id, key, due_at, attempt, lease_token, leased_until, relay_id, recorded_at)
    values (%(id)s, 1, %(key)s, now() + %(wait)s * interval '1 second', %(attempt)s, %(token)s,
        case when %(token)s::bigint is not null then now() end, %(token)s, now() - interval '35 days')
"""
DEAD = """
    insert into outbox.dead_letters (
        delivery_id, event_id, destination_id, attempt, interruptions, reason, recorded_at, died_at)
    values (1, %(id)s, 1, 10, 0, 'http_500', now() - interval '35 days', now() - interval '34 days')
"""
TRIED = """
    insert into outbox.attempts (delivery_id, event_id, destination_id, attempt, started_at, outcome)
    values (1, %(id)s, 1, 1, now() - %(days)s * interval '1 day', 'delivered')
"""


@pytest.fixture
def admin(database):
    """A database with a partition for each of the last 40 days."""
    with database.connect() as admin:
        add_destination(admin)
        admin.execute(
            "select outbox.attach_partition(parent, day, day + interval '1 day')"
            " from unnest(array['events', 'attempts']) parent, generate_series(date_trunc('day', now(), 'UTC')"
            " - interval '40 days', date_trunc('day', now(), 'UTC') - interval '1 day', interval '1 day') day"
        )
        yield admin


def old_event(admin, days=35):
    return admin.execute(OLD_EVENTS, {"days": days, "rows": 1}).fetchone()[0]


def open_delivery(admin, event_id, *, key=None, wait=0, attempt=0, token=None):
    admin.execute(OPEN, {"id": event_id, "key": key, "wait": wait, "attempt": attempt, "token": token})


def attempt(admin, event_id, days):
    admin.execute(TRIED, {"id": event_id, "days": days})


def unfinished_events(admin) -> set:
    """Put one event 35 days into the past for each state that is not over; return their ids."""
    waiting, scheduled, leased, head, blocked, dead = (old_event(admin) for _ in range(6))
    open_delivery(admin, waiting)
    open_delivery(admin, scheduled, wait=86400)
    open_delivery(admin, leased, attempt=1, token=1)
    open_delivery(admin, head, key="k", wait=60)
    open_delivery(admin, blocked, key="k")
    admin.execute(DEAD, {"id": dead})
    return {waiting, scheduled, leased, head, blocked, dead}


def events(admin) -> set:
    return {row[0] for row in admin.execute("select id from outbox.events").fetchall()}


def old_partitions(admin, parent="events"):
    return [
        row[0]
        for row in admin.execute(
            "select name from outbox.partitions where parent = %s and upper_bound <= now() - interval '30 days'"
            " order by lower_bound",
            [parent],
        ).fetchall()
    ]


@pytest.mark.parametrize("destination_state", ["active", "paused", "tripped", "disabled"])
def test_o04_only_what_is_finished_goes(admin, destination_state):
    admin.execute("update outbox.destinations set state = %s", [destination_state])
    unfinished = unfinished_events(admin)
    delivered, nowhere, late, young = old_event(admin), old_event(admin), old_event(admin), old_event(admin, 29)
    for event_id in unfinished | {delivered}:
        attempt(admin, event_id, 34)
    attempt(admin, late, 1)
    done = prune(admin, KEEP)
    assert events(admin) == unfinished | {late, young}
    assert {delivered, nowhere} & events(admin) == set()
    attempted = {row[0] for row in admin.execute("select event_id from outbox.attempts").fetchall()}
    assert attempted == unfinished | {late}
    assert count(admin, "deliveries") == 5
    assert count(admin, "dead_letters") == 1
    assert done.kept_whole == []
    assert done.busy == []


def test_o04_what_was_spared_goes_once_it_is_finished(admin):
    unfinished_events(admin)
    prune(admin, KEEP)
    assert len(events(admin)) == 6
    admin.execute("delete from outbox.deliveries; delete from outbox.dead_letters")
    prune(admin, KEEP)
    assert events(admin) == set()


def test_the_rest_of_many_days_is_folded_into_one_partition(admin):
    spared = {old_event(admin, days) for days in range(32, 40, 2)}
    for event_id in spared:
        open_delivery(admin, event_id)
    before = old_partitions(admin)
    done = prune(admin, KEEP)
    assert len(before) >= 9
    assert old_partitions(admin) == before[:1]
    assert old_partitions(admin, "attempts") == []
    assert events(admin) == spared
    assert done.folded == len(before) - 1 + len(before)
    bounds = admin.execute(
        "select upper_bound - lower_bound from outbox.partitions where name = %s", [before[0]]
    ).fetchone()
    assert bounds == (timedelta(days=len(before)),)
    assert prune(admin, KEEP).folded == 0


def test_a_spared_event_is_the_same_byte_for_byte(admin):
    event_id = old_event(admin)
    open_delivery(admin, event_id)
    row = "select e::text, e.payload::text from outbox.events e"
    before = admin.execute(row).fetchall()
    old_event(admin)
    prune(admin, KEEP)
    assert admin.execute(row).fetchall() == before


def test_a_replay_between_looking_and_locking_keeps_its_event(database, admin):
    """purge_partition looks up the unfinished again under the lock: force the replay in between."""
    replayed, finished = old_event(admin), old_event(admin)
    (name,) = admin.execute("select tableoid::regclass::text from outbox.events limit 1").fetchone()
    with psycopg.connect(database.dsn) as replay:
        replay.execute("select from outbox.events where id = %s", [replayed])  # holds the partition's lock
        open_delivery(replay, replayed)
        result = []

        def purge():
            with database.connect() as other:
                result.append(prune(other, KEEP))

        upkeep = threading.Thread(target=purge)
        upkeep.start()
        wait_until(
            lambda: admin.execute(
                "select exists (select from pg_locks where not granted and relation = %s::regclass)", [name]
            ).fetchone()[0],
            "upkeep waits for the partition",
        )
        replay.commit()
        upkeep.join(60)
    assert events(admin) == {replayed}
    assert finished not in events(admin)


def test_o04_recorders_never_wait_for_a_purge(database, admin):
    """The lock of a purge is on the old partition alone; recording goes through while it is held."""
    old_event(admin)
    name = admin.execute("select tableoid::regclass::text from outbox.events").fetchone()[0].removeprefix("outbox.")
    with (
        psycopg.connect(database.dsn) as purger,
        psycopg.connect(database.dsn, options="-c lock_timeout=1") as recorder,
    ):
        purger.execute("select outbox.purge_partition(%s, interval '30 days')", [name])
        outbox.record_event(recorder, "order.paid", key="k", idempotency_key="i")
        recorder.commit()


def test_a_partition_in_use_is_left_for_the_next_run_and_named(database, admin):
    event_id = old_event(admin)
    attempt(admin, event_id, 34)
    name = admin.execute("select tableoid::regclass::text from outbox.events").fetchone()[0].removeprefix("outbox.")
    with psycopg.connect(database.dsn) as reader:
        reader.execute("select * from outbox.events where id = %s", [event_id])
        done = prune(admin, KEEP, tries=2)
        assert f"purge {name}" in done.busy
        assert events(admin) == {event_id}
    assert prune(admin, KEEP).busy == []
    assert events(admin) == set()


def test_recorders_wait_at_most_twice_while_somebody_reads_for_long(database, admin):
    """A lock that is waited for makes recorders wait. Each refusal is one time that they did, for 150 ms at most."""
    refusals = []
    with psycopg.connect(database.dsn) as reader, psycopg.connect(database.dsn, autocommit=True) as upkeep:
        reader.execute("select from outbox.events limit 1")
        steps = _checked_steps(True, KEEP, DEFAULT_AHEAD_DAYS, 8)
        step = next(steps)
        with contextlib.suppress(StopIteration):
            while True:
                try:
                    answer = (
                        None if isinstance(step, _Pause) else upkeep.execute(step.sql, step.parameters).fetchone()[0]
                    )
                except psycopg.errors.LockNotAvailable as error:
                    refusals.append(step.sql)
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
    assert [sql for sql in refusals if "fold" in sql] == ["select outbox.fold_partitions(%s, %s)"] * 2
    assert prune(admin, KEEP).folded > 0


def test_what_locks_more_than_one_day_gives_up_after_150_ms(admin):
    """Recorders queue behind a lock that is waited for; how long is a setting of each function."""
    locking = admin.execute(
        "select proname, coalesce(proconfig, '{}') @> array['lock_timeout=150ms'] from pg_proc"
        " where pronamespace = 'outbox'::regnamespace and prosecdef"
        " and prosrc ~ '(lock table|alter table|drop table|truncate|attach_|_partition_table)'"
    ).fetchall()
    assert len(locking) >= 8
    assert [name for name, is_bounded in locking if not is_bounded] == []


def test_o04_a_writer_never_waits_long_for_a_lock_while_partitions_are_emptied_folded_and_dropped(database, admin):
    """The budget is 200 ms; the limit here is for a starved machine. A wait for a lock raises, slowness does not."""
    admin.execute(OLD_EVENTS, {"days": 36, "rows": 2000})
    kept = [old_event(admin, days) for days in (32, 33, 35)]
    for event_id in kept:
        open_delivery(admin, event_id)
    done, recorded = [], []
    with database.connect(options="-c lock_timeout=5s") as writer, database.connect() as other:
        upkeep = threading.Thread(target=lambda: done.append(prune(other, KEEP)))
        upkeep.start()
        while upkeep.is_alive() or not recorded:
            recorded.append(outbox.record_event(writer, "order.paid", key="k", allow_autocommit=True))
        upkeep.join()
    assert done[0].folded > 10
    assert set(kept) | set(recorded) == events(admin)


def test_a_day_with_very_much_unfinished_is_kept_whole_and_named(admin):
    admin.execute(OLD_EVENTS, {"days": 35, "rows": 20_002})
    admin.execute(
        "insert into outbox.deliveries (event_id, destination_id, due_at, recorded_at)"
        " select id, 1, now(), now() from outbox.events offset 1"
    )
    done = prune(admin, KEEP)
    assert len(done.kept_whole) == 1
    assert len(events(admin)) == 20_002
    admin.execute("delete from outbox.deliveries where id in (select id from outbox.deliveries limit 10000)")
    assert prune(admin, KEEP).kept_whole == []
    assert len(events(admin)) == 10_001


def test_rows_the_default_partition_took_are_purged_too(admin):
    for name in old_partitions(admin):
        admin.execute(sql.SQL("drop table outbox.{}").format(sql.Identifier(name)))
    admin.execute("drop table outbox.events_default")
    admin.execute("create table outbox.events_default partition of outbox.events default")
    gone, spared = old_event(admin), old_event(admin)
    open_delivery(admin, spared)
    admin.execute(
        "insert into outbox.events (id, type, payload, recorded_at)"
        " values (outbox.uuid_floor(now() + interval '100 days'), 'stray', '{}', now())"
    )
    done = prune(admin, KEEP)
    assert done.adopted == []
    assert done.removed_rows == 1
    assert gone not in events(admin)
    assert spared in events(admin)


def test_the_plan_of_a_prune_names_what_it_would_touch(admin):
    names = expired_partitions(admin, KEEP)
    assert set(names) == set(old_partitions(admin)) | set(old_partitions(admin, "attempts"))
    assert expired_partitions(admin, timedelta(days=41)) == []


def test_expired_idempotency_keys_go_and_the_key_is_free(admin):
    first = outbox.record_event(admin, "a", 1, idempotency_key="k", allow_autocommit=True)
    outbox.record_event(admin, "a", 1, idempotency_key="young", allow_autocommit=True)
    admin.execute("update outbox.idempotency_keys set expires_at = now() where key = 'k'")
    admin.execute(
        "insert into outbox.idempotency_keys"
        " select 'old-' || n, gen_random_uuid(), '', now() from generate_series(1, 6000) n"
    )
    assert prune(admin).expired_keys == 6001
    assert count(admin, "idempotency_keys") == 1
    second = outbox.record_event(admin, "a", 2, idempotency_key="k", allow_autocommit=True)
    assert second != first


def test_a_key_outlives_the_event_it_stands_for(admin):
    """The documented behaviour of a key that is used again after its event was purged, but before it expired."""
    first = outbox.record_event(admin, "a", 1, idempotency_key="k", allow_autocommit=True)
    admin.execute("delete from outbox.events")
    assert outbox.record_event(admin, "a", 1, idempotency_key="k", allow_autocommit=True) == first
    with pytest.raises(outbox.IdempotencyConflict):
        outbox.record_event(admin, "a", 2, idempotency_key="k", allow_autocommit=True)


def test_counts_are_merged_per_minute_then_per_hour_and_then_go(admin):
    admin.execute(
        "insert into outbox.outcome_counts select d, date_trunc('hour', now()) - age, 1, 2, 3, 10, n"
        " from generate_series(1, 2) d, generate_series(1, 3) n,"
        " unnest(array[interval '1 hour', interval '59 minutes', '3 days', '71 hours 30 minutes', '31 days']) age"
    )
    sums = (
        "select sum(delivered), sum(retried), sum(died), sum(latency_sum_ms), max(latency_max_ms)"
        " from outbox.outcome_counts"
    )
    kept = admin.execute(f"{sums} where minute > now() - interval '30 days'").fetchone()
    assert prune(admin, KEEP).merged_counts == 24
    assert admin.execute(sums).fetchone() == kept
    per_destination = admin.execute(
        "select date_trunc('hour', now()) - minute from outbox.outcome_counts where destination_id = 1 order by 1"
    ).fetchall()
    assert per_destination == [(timedelta(minutes=59),), (timedelta(hours=1),), (timedelta(hours=72),)]
    assert prune(admin, KEEP).merged_counts == 0


def test_relays_that_died_before_the_retention_are_forgotten(admin):
    for days in (1, 31):
        admin.execute(
            "insert into outbox.relays (name, host, pid, version, concurrency, heartbeat_at)"
            " values ('r', 'h', 1, '0', 1, now() - %s * interval '1 day')",
            [days],
        )
    assert prune(admin, KEEP).forgotten_relays == 1
    assert count(admin, "relays") == 1
