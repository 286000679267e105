"""Partitions ahead, and a default partition that steps in without ever failing a recorder."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg import sql

import outbox
from outbox import Event
from outbox.errors import InvalidSettings, UsageError
from outbox.prune import aprune, prune
from tests.queues import add_destination, count
from tests.waiting import wait_until

DAY = timedelta(days=1)


@pytest.fixture
def admin(database):
    with database.connect() as admin:
        add_destination(admin)
        yield admin


def partitions(admin, parent="events"):
    """Return (name, lower bound, upper bound) of the ranges, in order."""
    return admin.execute(
        "select name, lower_bound, upper_bound from outbox.partitions where parent = %s and not is_default"
        " order by lower_bound",
        [parent],
    ).fetchall()


def drop_partitions(admin, parent="events"):
    for name, _, _ in partitions(admin, parent):
        admin.execute(sql.SQL("drop table outbox.{}").format(sql.Identifier(name)))


def record(admin, number=1):
    return outbox.record_events(admin, [Event("order.paid", n) for n in range(number)], allow_autocommit=True)


def today():
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def test_the_migration_makes_a_week_of_partitions_of_one_day_each(admin):
    for parent in ("events", "attempts"):
        made = partitions(admin, parent)
        assert len(made) == 8
        first = made[0][1]
        assert [(low, high) for _, low, high in made] == [(first + n * DAY, first + (n + 1) * DAY) for n in range(8)]
        assert made[0][0] == f"{parent}_{first:%Y_%m_%d}"
        assert first == today()


def test_an_event_lands_in_the_partition_of_its_day(admin):
    record(admin)
    (name,) = admin.execute("select tableoid::regclass::text from outbox.events").fetchone()
    assert name == f"outbox.events_{today():%Y_%m_%d}"


def test_upkeep_makes_only_what_is_missing(admin):
    assert admin.execute("select outbox.create_partitions(7)").fetchone() == (0,)
    assert admin.execute("select outbox.create_partitions(9)").fetchone() == (4,)
    assert len(partitions(admin)) == 10


def test_a_partition_is_an_exact_copy(admin):
    admin.execute("select outbox.create_partitions(8)")
    last = partitions(admin)[-1][0]
    columns = (
        "select attname, format_type(atttypid, atttypmod), attnotnull from pg_attribute"
        " where attrelid = %s::regclass and attnum > 0 order by attnum"
    )
    assert (
        admin.execute(columns, [f"outbox.{last}"]).fetchall()
        == admin.execute(columns, ["outbox.events_default"]).fetchall()
    )
    assert admin.execute("select indexname from pg_indexes where tablename = %s", [last]).fetchall() == [
        (f"{last}_pkey",)
    ]


@pytest.mark.parametrize("days", [0, -1, 367, None])
def test_days_that_make_no_sense_are_refused(admin, days):
    with pytest.raises(psycopg.Error, match="ahead_days") as refused:
        admin.execute("select outbox.create_partitions(%s)", [days])
    assert refused.value.diag.sqlstate == "OB008"


def test_partitions_are_made_while_a_recorder_holds_its_transaction_open(database, admin):
    with psycopg.connect(database.dsn) as recorder:
        outbox.record_event(recorder, "order.paid")
        assert admin.execute("select outbox.create_partitions(8)").fetchone() == (2,)


def test_a_missing_partition_fails_nobody_and_becomes_one_without_moving_a_row(admin):
    drop_partitions(admin)
    record(admin, 100)
    pages = admin.execute("select ctid, id from outbox.events_default order by id").fetchall()
    done = prune(admin)
    assert done.adopted == ["events"]
    assert done.created == 7
    name, low, high = partitions(admin)[0]
    assert (name, low, high) == (f"events_{today():%Y_%m_%d}", today(), today() + DAY)
    assert (
        admin.execute(sql.SQL("select ctid, id from outbox.{} order by id").format(sql.Identifier(name))).fetchall()
        == pages
    )
    assert count(admin, "events_default") == 0
    record(admin)
    assert count(admin, "events_default") == 0
    assert admin.execute("select indexname from pg_indexes where tablename = 'events_default'").fetchall() == [
        ("events_default_pkey",)
    ]
    assert admin.execute("select count(*) from pg_constraint where conname = 'default_fills_one_gap'").fetchone() == (
        0,
    )


def test_a_default_partition_that_fills_a_gap_of_days_becomes_the_partition_of_that_gap(admin):
    (first, *_) = partitions(admin)
    admin.execute(
        "insert into outbox.events (id, type, payload, recorded_at)"
        " select outbox.uuid_floor(%(first)s - n * interval '1 day'), 'a', '{}', now() from generate_series(1, 5) n",
        {"first": first[1]},
    )
    assert count(admin, "events_default") == 5
    assert prune(admin, timedelta(days=30)).adopted == ["events"]
    assert partitions(admin)[0][1:] == (first[1] - 5 * DAY, first[1])
    assert count(admin, "events_default") == 0


def test_rows_of_several_gaps_stay_where_they_are_and_new_partitions_come(admin):
    (first, *_) = partitions(admin)
    last = partitions(admin)[-1]
    for moment in (first[1] - DAY, last[2] + 30 * DAY):
        admin.execute(
            "insert into outbox.events (id, type, payload, recorded_at)"
            " values (outbox.uuid_floor(%s), 'a', '{}', now())",
            [moment],
        )
    done = prune(admin, ahead_days=8)
    assert done.adopted == []
    assert done.created == 2
    assert count(admin, "events_default") == 2


def test_a_large_default_partition_is_checked_first_and_then_adopted_without_a_scan(admin):
    drop_partitions(admin)
    admin.execute(
        "insert into outbox.events (id, type, payload, recorded_at)"
        " select outbox.new_event_id(clock_timestamp()), 'a', to_jsonb(repeat(md5(n::text), 60)), now()"
        " from generate_series(1, 20000) n"
    )
    assert admin.execute("select pg_relation_size('outbox.events_default') > 33554432").fetchone() == (True,)
    assert admin.execute("select outbox.adopt_default('events')").fetchone() == (False,)
    assert prune(admin).adopted == ["events"]
    name, low, high = partitions(admin)[0]
    assert (low, high) == (today(), today() + 8 * DAY)
    assert admin.execute("select count(*) from pg_constraint where conname = 'default_fills_one_gap'").fetchone() == (
        0,
    )
    record(admin)
    assert count(admin, "events_default") == 0
    assert count(admin, name) == 20001


def test_the_check_an_interrupted_adoption_left_behind_is_removed_by_the_next_run(admin):
    drop_partitions(admin)
    record(admin)
    assert admin.execute("select outbox.constrain_default('events')").fetchone() == (True,)
    admin.execute("delete from outbox.events_default")
    prune(admin)
    assert admin.execute("select count(*) from pg_constraint where conname = 'default_fills_one_gap'").fetchone() == (
        0,
    )


def test_recorders_wait_at_most_for_the_lock_timeout(database, admin):
    """A transaction that recorded and stays open keeps the adoption out; those behind it go on after 150 ms."""
    drop_partitions(admin)
    record(admin)
    with psycopg.connect(database.dsn) as holder:
        outbox.record_event(holder, "held")
        done = []

        def adopt():
            with database.connect() as other:
                done.append(prune(other, tries=2))

        upkeep = threading.Thread(target=adopt)
        upkeep.start()
        for _ in range(50):
            record(admin)
        upkeep.join(60)
    assert "adopt default of events" in done[0].busy
    assert done[0].adopted == []
    assert count(admin, "events") == 52
    assert prune(admin).adopted == ["events"]


def test_recording_goes_on_without_loss_while_partitions_come_and_go(database, admin):
    drop_partitions(admin)
    stop = threading.Event()

    def produce():
        recorded = []
        with psycopg.connect(database.dsn) as producer:
            while not stop.is_set():
                recorded.append(outbox.record_event(producer, "order.paid", key="k"))
                producer.commit()
        return recorded

    with ThreadPoolExecutor(4) as pool:
        producers = [pool.submit(produce) for _ in range(4)]
        for _ in range(8):
            prune(admin)
            drop_partitions_ahead(admin)
        prune(admin)
        stop.set()
        recorded = [event_id for producer in producers for event_id in producer.result(60)]
    assert {row[0] for row in admin.execute("select id from outbox.events").fetchall()} == set(recorded)
    assert count(admin, "deliveries") == len(recorded)


def test_a_recorder_on_its_way_to_the_default_partition_does_not_fail_when_today_gets_its_own(database, admin):
    """Negative control: attaching without the lock on the table fails that recorder."""
    unsafe = "select outbox.attach_partition('events', d, d + interval '1 day') from date_trunc('day', now(), 'UTC') d"
    for cover, is_safe in (("select outbox.cover_now('events')", True), (unsafe, False)):
        drop_partitions(admin)
        with psycopg.connect(database.dsn) as upkeep, database.connect() as recorder, ThreadPoolExecutor(1) as pool:
            upkeep.execute(cover)
            pid = recorder.info.backend_pid
            recording = pool.submit(record, recorder)
            wait_until(
                lambda pid=pid: admin.execute(
                    "select exists (select from pg_stat_activity where pid = %s and wait_event_type = 'Lock')", [pid]
                ).fetchone()[0],
                "the recorder waits",
            )
            upkeep.commit()
            if is_safe:
                assert len(recording.result(60)) == 1
            else:
                with pytest.raises(psycopg.errors.CheckViolation, match="events_default"):
                    recording.result(60)
        admin.execute("delete from outbox.events")


def drop_partitions_ahead(admin):
    for name, low, _ in partitions(admin):
        if low > today():
            admin.execute(sql.SQL("drop table outbox.{}").format(sql.Identifier(name)))


def test_two_at_once_make_each_partition_once(database, admin):
    drop_partitions(admin)
    drop_partitions(admin, "attempts")
    results = []

    def run():
        with database.connect() as connection:
            results.append(prune(connection))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum(done.created for done in results) == 16
    assert all(done.busy == [] for done in results)


def test_upkeep_refuses_a_connection_in_a_transaction(database):
    with psycopg.connect(database.dsn) as connection, pytest.raises(UsageError, match="autocommit"):
        prune(connection)


@pytest.mark.parametrize("keep", [timedelta(0), timedelta(seconds=1), timedelta(days=-1), timedelta(days=99999)])
def test_o04_a_retention_that_makes_no_sense_is_refused(admin, keep):
    with pytest.raises(InvalidSettings, match="is not a time from 1 day"):
        prune(admin, keep)
    with pytest.raises(psycopg.Error, match="is not a time from 1 day") as refused:
        admin.execute("select outbox.fold_partitions('events', %s)", [keep])
    assert refused.value.diag.sqlstate == "OB008"


def test_upkeep_runs_in_asyncio_alike(database, admin):
    drop_partitions(admin)
    record(admin)

    async def run():
        async with await psycopg.AsyncConnection.connect(database.dsn, autocommit=True) as connection:
            return await aprune(connection)

    done = asyncio.run(run())
    assert done.adopted == ["events"]
    assert done.created == 7
