"""Idempotency keys: the same one twice records one event, in whatever order transactions end."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal

import psycopg
import pytest

import outbox
from outbox import Event, IdempotencyConflict
from tests.queues import add_destination, count
from tests.waiting import wait_until

PATIENCE = "-c lock_timeout=30s"  # a failing test must not hang
PAYLOAD = {"order": 1, "note": "SECRET-P1", "total": Decimal("1.10")}


@pytest.fixture
def connection(database):
    with database.connect() as connection:
        add_destination(connection)
        yield connection


def record(connection, payload=PAYLOAD, key="k1", **arguments):
    return outbox.record_event(
        connection, "order.paid", payload, idempotency_key=key, allow_autocommit=True, **arguments
    )


def is_waiting_for_lock(connection, pid) -> bool:
    return connection.execute(
        "select exists (select from pg_stat_activity where pid = %s and wait_event_type = 'Lock')", [pid]
    ).fetchone()[0]


def test_t03_the_same_event_again_returns_its_id_and_leaves_the_transaction_usable(database, connection):
    first = record(connection)
    connection.execute("create table orders (id integer primary key)")
    with database.connect() as business:
        business.execute("begin")
        business.execute("insert into orders values (1)")
        assert record(business) == first
        business.execute("insert into orders values (2)")
        business.execute("commit")
    assert connection.execute("select count(*) from orders").fetchone() == (2,)
    assert count(connection, "events") == 1
    assert count(connection, "deliveries") == 1


def test_t03_fifty_sessions_that_race_record_one_event(database, connection):
    start = threading.Barrier(50)

    def race(_):
        with psycopg.connect(database.dsn) as session:
            session.execute("select 1")
            start.wait(60)
            return record(session, key="raced")

    with ThreadPoolExecutor(50) as pool:
        ids = set(pool.map(race, range(50)))
    assert len(ids) == 1
    assert count(connection, "events") == 1
    assert count(connection, "deliveries") == 1


def test_the_loser_of_a_race_records_when_the_winner_rolls_back(database, connection):
    with psycopg.connect(database.dsn) as winner, psycopg.connect(database.dsn, options=PATIENCE) as loser:
        rolled_back = record(winner)
        pid = loser.info.backend_pid
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(record, loser)
            wait_until(lambda: is_waiting_for_lock(connection, pid), "the loser waits")
            winner.rollback()
            recorded = waiting.result(30)
        loser.commit()
    assert recorded != rolled_back
    assert connection.execute("select id from outbox.events").fetchall() == [(recorded,)]
    assert connection.execute("select event_id from outbox.idempotency_keys").fetchall() == [(recorded,)]


def test_the_loser_of_a_race_gets_the_id_of_the_winner_that_commits(database, connection):
    with psycopg.connect(database.dsn) as winner, psycopg.connect(database.dsn, options=PATIENCE) as loser:
        won = record(winner)
        pid = loser.info.backend_pid
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(record, loser)
            wait_until(lambda: is_waiting_for_lock(connection, pid), "the loser waits")
            winner.commit()
            assert waiting.result(30) == won
        loser.commit()
    assert count(connection, "events") == 1


def test_a_key_recorded_in_a_rolled_back_savepoint_is_free_again(database):
    with psycopg.connect(database.dsn) as session:
        with session.transaction() as savepoint:
            first = record(session)
            raise psycopg.Rollback(savepoint)
        second = record(session, {"other": "content"})
        session.commit()
        assert second != first


def test_t04_same_key_other_payload_is_refused(connection):
    first = record(connection)
    with pytest.raises(IdempotencyConflict) as refused:
        record(connection, {"note": "SECRET-P2"})
    message = str(refused.value)
    assert message == (
        f'idempotency key "k1" was already used for event {first} with other content; use a new key for new content'
    )
    cause = refused.value.__cause__
    assert cause.diag.sqlstate == "OB001"
    shown = f"{cause.diag.message_primary} {cause.diag.message_detail} {cause.diag.context} {cause}"
    assert "SECRET" not in shown
    assert count(connection, "events") == 1


@pytest.mark.parametrize(
    "other",
    [
        {"type": "order.late"},
        {"key": "other"},
        {"headers": {"x-a": "b"}},
        {"destination": "shop"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_t04_same_key_other_arguments_are_refused(connection, other):
    arguments = {"type": "order.paid", "payload": 1, "idempotency_key": "k1", "allow_autocommit": True}
    outbox.record_event(connection, **arguments)
    with pytest.raises(IdempotencyConflict):
        outbox.record_event(connection, **(arguments | other))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('{"a": 1, "b": [1, 2]}', '{ "b":[1,2],"a":1 }'),
        ('{"a": 1.10}', '{"a": 1.1}'),
        ('{"a": 1}', '{"a": 1.0}'),
        ('{"a": 100}', '{"a": 1e2}'),
        ('{"a": "é"}', r'{"a": "\u00e9"}'),
        ('{"a": 1, "a": 2}', '{"a": 2}'),
    ],
)
def test_t04_json_equal_payloads_are_the_same(connection, first, second):
    call = "select outbox.record_event('a', %s::jsonb, idempotency_key => 'k')"
    assert connection.execute(call, [first]).fetchone() == connection.execute(call, [second]).fetchone()


@pytest.mark.parametrize(
    ("first", "second"),
    [("[[1], 2]", "[[1, 2]]"), ("{}", "[]"), ("null", '"null"'), ('{"a": null}', "{}"), ("1", '"1"'), ('"a"', '"a "')],
)
def test_t04_json_that_only_looks_alike_is_other_content(connection, first, second):
    call = "select outbox.record_event('a', %s::jsonb, idempotency_key => 'k')"
    connection.execute(call, [first])
    with pytest.raises(psycopg.Error) as refused:
        connection.execute(call, [second])
    assert refused.value.diag.sqlstate == "OB001"


def test_the_captured_trace_and_the_due_time_are_no_content(connection):
    first = record(connection, headers={"traceparent": "00-1"}, delay=5)
    again = record(connection, headers={"traceparent": "00-2", "tracestate": "a=b"}, due_at=datetime.now(UTC))
    assert again == first


def test_an_expired_key_records_a_new_event(connection):
    first = record(connection)
    connection.execute("update outbox.idempotency_keys set expires_at = now() - interval '1 second'")
    second = record(connection, {"other": "content"})
    assert second != first
    assert record(connection, {"other": "content"}) == second
    assert count(connection, "events") == 2


def test_an_expired_key_raced_by_two_records_one_event(database, connection):
    record(connection)
    connection.execute("update outbox.idempotency_keys set expires_at = now() - interval '1 second'")
    with psycopg.connect(database.dsn) as winner, psycopg.connect(database.dsn, options=PATIENCE) as loser:
        won = record(winner)
        pid = loser.info.backend_pid
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(record, loser)
            wait_until(lambda: is_waiting_for_lock(connection, pid), "the loser waits")
            winner.commit()
            assert waiting.result(30) == won


def test_keys_are_remembered_for_seven_days_or_as_set(connection):
    record(connection, key="a")
    connection.execute("set outbox.idempotency_hours = '48'")
    record(connection, key="b")
    periods = connection.execute(
        "select round(extract(epoch from expires_at - now()) / 3600)::integer from outbox.idempotency_keys order by key"
    ).fetchall()
    assert periods == [(168,), (48,)]


def test_a_duplicate_takes_no_delivery_and_no_fence(database, connection):
    record(connection, key="a")
    with psycopg.connect(database.dsn) as session:
        outbox.record_event(session, "order.paid", PAYLOAD, idempotency_key="a")
        assert session.execute(
            "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
        ).fetchone() == (0,)


def test_a_batch_repeats_and_mixes_keys(connection):
    batch = [
        Event("a", 1, idempotency_key="x"),
        Event("a", 2),
        Event("a", 1, idempotency_key="x"),
        Event("a", 3, idempotency_key="y"),
    ]
    first = outbox.record_events(connection, batch, allow_autocommit=True)
    assert first[0] == first[2]
    assert len(set(first)) == 3
    again = outbox.record_events(connection, batch, allow_autocommit=True)
    assert (again[0], again[2], again[3]) == (first[0], first[2], first[3])
    assert again[1] != first[1]
    assert count(connection, "events") == 4
    assert count(connection, "deliveries") == 4


def test_a_batch_with_a_used_key_and_other_content_records_nothing(connection):
    record(connection, key="x")
    with pytest.raises(IdempotencyConflict):
        outbox.record_events(connection, [Event("a"), Event("a", idempotency_key="x")], allow_autocommit=True)
    assert count(connection, "events") == 1


def test_batches_with_the_same_keys_in_other_orders_do_not_deadlock(database, connection):
    keys = [f"k{number:03}" for number in range(100)]

    async def write(order):
        async with await psycopg.AsyncConnection.connect(database.dsn) as session:
            return await outbox.arecord_events(session, [Event("a", idempotency_key=key) for key in order])

    async def race():
        return await asyncio.gather(*(write(order) for order in [keys, keys[::-1]] * 5))

    results = asyncio.run(race())
    assert {frozenset(ids) for ids in results} == {frozenset(results[0])}
    assert count(connection, "events") == 100


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_strict_transaction_that_lost_the_race_is_told_to_retry(database, connection, level):
    with database.connect() as session:
        session.execute(f"begin isolation level {level}")
        session.execute("select count(*) from outbox.relays")
        record(connection)
        with pytest.raises(psycopg.errors.SerializationFailure):
            record(session)
        session.execute("rollback")
        session.execute(f"begin isolation level {level}")
        record(session)
        session.execute("commit")
    assert count(connection, "events") == 1
