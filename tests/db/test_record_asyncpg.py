"""arecord_event on asyncpg connections and on what its pools lend."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from uuid import UUID

import asyncpg
import pytest
from psycopg.conninfo import conninfo_to_dict

import outbox
from outbox import Event, IdempotencyConflict, InvalidEvent, TransactionRequired, UsageError
from tests.queues import add_destination, count


@pytest.fixture
def admin(database):
    with database.connect() as admin:
        add_destination(admin)
        yield admin


def arguments(database) -> dict:
    parts = conninfo_to_dict(database.dsn)
    return {"host": parts["host"], "port": parts.get("port"), "user": parts["user"], "database": parts["dbname"]}


@asynccontextmanager
async def connected(database, **options):
    connection = await asyncpg.connect(**arguments(database), **options)
    try:
        yield connection
    finally:
        await connection.close()


def recorded(admin):
    return [row[0] for row in admin.execute("select type from outbox.events order by id").fetchall()]


def test_a_connection_records_in_its_transaction(database, admin):
    async def record():
        async with connected(database) as connection:
            async with connection.transaction():
                ids = [await outbox.arecord_event(connection, "e1", {"a": 1}, key="k", delay=5)]
                ids += await outbox.arecord_events(connection, [Event("e2"), Event("e3")])
            transaction = connection.transaction()
            await transaction.start()
            await outbox.arecord_event(connection, "rolled.back")
            await transaction.rollback()
            return ids

    ids = asyncio.run(record())
    assert all(type(event_id) is UUID for event_id in ids)
    assert recorded(admin) == ["e1", "e2", "e3"]
    assert count(admin, "deliveries") == 3


async def _record_both_in_a_savepoint(connection):
    async with connection.transaction():
        await outbox.arecord_event(connection, "e2")
        await outbox.arecord_event(connection, "e3", idempotency_key="k")


def test_t02_a_savepoint_that_rolls_back_records_nothing(database, admin):
    async def record():
        async with connected(database) as connection, connection.transaction():
            await outbox.arecord_event(connection, "e1", idempotency_key="k")
            with pytest.raises(IdempotencyConflict, match='idempotency key "k" was already used for event') as refused:
                await _record_both_in_a_savepoint(connection)
            assert refused.value.__cause__.sqlstate == "OB001"
            with pytest.raises(InvalidEvent):
                await outbox.arecord_event(connection, "e4", {1})
            await outbox.arecord_event(connection, "e5")

    asyncio.run(record())
    assert recorded(admin) == ["e1", "e5"]


def test_t14_outside_a_transaction_it_is_refused(database, admin):
    async def record():
        async with connected(database) as connection:
            with pytest.raises(TransactionRequired):
                await outbox.arecord_event(connection, "refused")
            with pytest.raises(TransactionRequired):
                await outbox.arecord_events(connection, [Event("refused")])
            await outbox.arecord_event(connection, "allowed", allow_autocommit=True)
            with pytest.raises(UsageError, match="the connection is asynchronous"):
                outbox.record_event(connection, "refused")

    asyncio.run(record())
    assert recorded(admin) == ["allowed"]


def test_t14_closed_and_aborted_say_so_themselves(database, admin):
    async def record():
        async with connected(database) as connection:
            transaction = connection.transaction()
            await transaction.start()
            with pytest.raises(asyncpg.DivisionByZeroError):
                await connection.execute("select 1 / 0")
            with pytest.raises(asyncpg.InFailedSQLTransactionError):
                await outbox.arecord_event(connection, "order.paid")
            await transaction.rollback()
        with pytest.raises(asyncpg.InterfaceError, match="closed"):
            await outbox.arecord_event(connection, "order.paid")

    asyncio.run(record())


def test_what_a_pool_lends_records_and_the_pool_itself_is_refused(database, admin):
    async def record():
        async with asyncpg.create_pool(**arguments(database), min_size=1, max_size=2) as pool:
            async with pool.acquire() as connection, connection.transaction():
                await outbox.arecord_event(connection, "order.paid")
            with pytest.raises(UsageError, match="Pool lends another connection each time"):
                await outbox.arecord_event(pool, "order.paid")
            with pytest.raises(UsageError, match="the connection is asynchronous"):
                outbox.record_event(connection, "order.paid")

    asyncio.run(record())
    assert recorded(admin) == ["order.paid"]


def test_codecs_of_the_application_change_nothing(database, admin):
    async def record():
        async with connected(database, statement_cache_size=0) as connection:
            await connection.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
            await connection.set_type_codec("uuid", encoder=str, decoder=lambda text: text[:8], schema="pg_catalog")
            async with connection.transaction():
                event_id = await outbox.arecord_event(connection, "order.paid", {"a": 1}, headers={"x-a": "b"})
                assert type(event_id) is UUID

    asyncio.run(record())
    assert admin.execute("select payload, headers from outbox.events").fetchall() == [({"a": 1}, {"x-a": "b"})]
