"""The receiver's inbox: each event has an effect once, in the receiver's own transaction."""

from __future__ import annotations

import asyncio
import threading

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
import sqlalchemy.orm

from outbox.errors import TransactionRequired, UsageError
from outbox.inbox import CREATE_TABLE, aonce, once
from tests.waiting import wait_until

EVENT = "0192f0c1-7a2b-7c3d-8e4f-5a6b7c8d9e0f"


@pytest.fixture
def dsn(empty_database) -> str:
    """A receiver's own database: it has the inbox and no outbox."""
    with empty_database.connect() as connection:
        connection.execute(CREATE_TABLE)
        connection.execute(CREATE_TABLE)
        connection.execute("create table handled (event_id text)")
    return empty_database.dsn


def handle(connection, event_id: str = EVENT) -> bool:
    is_new = once(connection, event_id)
    if is_new:
        connection.execute("insert into handled values (%s)", [event_id])
    return is_new


def test_second_delivery_is_not_new(dsn):
    with psycopg.connect(dsn) as connection:
        assert handle(connection)
        assert not handle(connection)
    with psycopg.connect(dsn) as connection:
        assert not handle(connection)
        assert connection.execute("select count(*) from handled").fetchone() == (1,)


def test_rolled_back_work_leaves_no_note(dsn):
    with psycopg.connect(dsn) as connection:
        assert handle(connection)
        connection.rollback()
        assert handle(connection)


def test_concurrent_delivery_waits_and_then_knows(dsn):
    results = []

    def deliver_again():
        with psycopg.connect(dsn, application_name="second") as second:
            results.append(handle(second))

    with psycopg.connect(dsn) as first, psycopg.connect(dsn, autocommit=True) as watcher:
        assert handle(first)
        thread = threading.Thread(target=deliver_again)
        thread.start()
        waiting = "select true from pg_stat_activity where application_name = 'second' and wait_event_type = 'Lock'"
        wait_until(lambda: watcher.execute(waiting).fetchone(), "the second delivery waits for the first")
        assert results == []
        first.commit()
        thread.join(20)
    assert results == [False]


def test_concurrent_delivery_takes_over_when_the_first_rolls_back(dsn):
    results = []

    def deliver_again():
        with psycopg.connect(dsn, application_name="second") as second:
            results.append(handle(second))

    with psycopg.connect(dsn) as first, psycopg.connect(dsn, autocommit=True) as watcher:
        assert handle(first)
        thread = threading.Thread(target=deliver_again)
        thread.start()
        waiting = "select true from pg_stat_activity where application_name = 'second' and wait_event_type = 'Lock'"
        wait_until(lambda: watcher.execute(waiting).fetchone(), "the second delivery waits for the first")
        first.rollback()
        thread.join(20)
    assert results == [True]


def test_receivers_in_one_database_do_not_take_each_others_events(dsn):
    with psycopg.connect(dsn) as connection:
        assert once(connection, EVENT, receiver="billing")
        assert once(connection, EVENT, receiver="shipping")
        assert not once(connection, EVENT, receiver="billing")


def test_without_a_transaction_it_refuses(dsn):
    with psycopg.connect(dsn, autocommit=True) as connection:
        with pytest.raises(TransactionRequired):
            once(connection, EVENT)
        with connection.transaction():
            assert once(connection, EVENT)


@pytest.mark.parametrize("event_id", ["", "x" * 257])
def test_odd_event_id_is_refused(dsn, event_id):
    with psycopg.connect(dsn) as connection, pytest.raises(UsageError, match="event_id"):
        once(connection, event_id)


def test_sqlalchemy_session(dsn):
    engine = sa.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn))
    with sa.orm.Session(engine) as session, session.begin():
        assert once(session, EVENT)
        assert not once(session, EVENT)
    engine.dispose()


def test_asyncio_connections(dsn):
    async def with_psycopg():
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            return [await aonce(connection, EVENT), await aonce(connection, EVENT)]

    async def with_asyncpg():
        parts = psycopg.conninfo.conninfo_to_dict(dsn)
        connection = await asyncpg.connect(
            host=parts.get("host"), port=parts.get("port"), user=parts.get("user"), database=parts["dbname"]
        )
        async with connection.transaction():
            answers = [await aonce(connection, EVENT), await aonce(connection, "another")]
        with pytest.raises(TransactionRequired):
            await aonce(connection, EVENT)
        await connection.close()
        return answers

    assert asyncio.run(with_psycopg()) == [True, False]
    assert asyncio.run(with_asyncpg()) == [False, True]
