"""record_event on SQLAlchemy: sessions and connections, blocking and asyncio, over psycopg and asyncpg."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import URL, create_engine, text
from sqlalchemy.exc import DBAPIError, ResourceClosedError
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

import outbox
from outbox import Event, IdempotencyConflict, InvalidEvent, TransactionRequired, UsageError
from tests.queues import add_destination, count

ASYNC_DRIVERS = ["psycopg", "asyncpg"]


def url(database, driver) -> URL:
    parts = conninfo_to_dict(database.dsn)
    host, port = parts["host"], int(parts.get("port", 5432))
    is_socket = host.startswith("/")
    return URL.create(
        f"postgresql+{driver}",
        username=parts["user"],
        database=parts["dbname"],
        host=None if is_socket else host,
        port=None if is_socket else port,
        query={"host": host, "port": str(port)} if is_socket else {},
    )


@pytest.fixture
def admin(database):
    with database.connect() as admin:
        add_destination(admin)
        admin.execute("create table orders (id integer primary key)")
        yield admin


@pytest.fixture
def engine(database, admin):
    engine = create_engine(url(database, "psycopg"), poolclass=NullPool)
    yield engine
    engine.dispose()


def recorded(admin):
    return [row[0] for row in admin.execute("select type from outbox.events order by id").fetchall()]


def test_a_session_records_in_its_transaction(admin, engine):
    with Session(engine) as session:
        session.execute(text("insert into orders values (1)"))
        ids = [outbox.record_event(session, "e1", {"a": 1}, key="k", delay=5)]
        ids += outbox.record_events(session, [Event("e2"), Event("e3")])
        assert recorded(admin) == []
        session.commit()
    assert recorded(admin) == ["e1", "e2", "e3"]
    assert admin.execute("select array_agg(id order by id) from outbox.events").fetchone() == (ids,)


def test_t02_t14_a_session_that_has_not_begun_begins_as_with_any_statement_and_rolls_back(admin, engine):
    with Session(engine) as session:
        assert not session.in_transaction()
        outbox.record_event(session, "e1")
        assert session.in_transaction()
        session.rollback()
        outbox.record_event(session, "e2")
        session.commit()
    assert recorded(admin) == ["e2"]


def test_t02_nested_transactions_that_roll_back_record_nothing(admin, engine):
    with Session(engine) as session, session.begin():
        outbox.record_event(session, "e1")
        nested = session.begin_nested()
        outbox.record_event(session, "e2")
        nested.rollback()
        with session.begin_nested():
            outbox.record_event(session, "e3")
    assert recorded(admin) == ["e1", "e3"]


def test_a_refusal_in_a_nested_transaction_leaves_the_outer_one_usable(admin, engine):
    with Session(engine) as session, session.begin():
        outbox.record_event(session, "e1", idempotency_key="k")
        with pytest.raises(IdempotencyConflict), session.begin_nested():
            outbox.record_event(session, "e2", idempotency_key="k")
        with pytest.raises(InvalidEvent, match="there is none named"), session.begin_nested():
            outbox.record_event(session, "e3", destination="nowhere")
        outbox.record_event(session, "e4")
    assert recorded(admin) == ["e1", "e4"]


def test_a_connection_and_scoped_sessions_record_alike(admin, engine):
    with engine.begin() as connection:
        outbox.record_event(connection, "e1")
    scoped = scoped_session(sessionmaker(engine))
    outbox.record_event(scoped, "e2")
    scoped.commit()
    scoped.remove()
    assert recorded(admin) == ["e1", "e2"]


def test_t14_autocommit_is_refused_although_sqlalchemy_calls_it_a_transaction(admin, engine):
    automatic = engine.execution_options(isolation_level="AUTOCOMMIT")
    with automatic.connect() as connection:
        with pytest.raises(TransactionRequired):
            outbox.record_event(connection, "refused")
        outbox.record_event(connection, "allowed", allow_autocommit=True)
        connection.execute(text("begin"))
        outbox.record_event(connection, "in.begin")
        connection.execute(text("commit"))
    with Session(automatic) as session, pytest.raises(TransactionRequired):
        outbox.record_events(session, [Event("refused")])
    assert recorded(admin) == ["allowed", "in.begin"]


def test_t14_closed_and_aborted_say_so_themselves(engine):
    with engine.connect() as connection:
        pass
    with pytest.raises(ResourceClosedError):
        outbox.record_event(connection, "order.paid")
    with engine.connect() as connection:
        with pytest.raises(DBAPIError):
            connection.execute(text("select 1 / 0"))
        with pytest.raises(DBAPIError) as failed:
            outbox.record_event(connection, "order.paid")
        assert isinstance(failed.value.orig, psycopg.errors.InFailedSqlTransaction)


def test_a_blocking_session_is_refused_in_asyncio_and_the_other_way_round(database, admin, engine):
    async def record():
        async_engine = create_async_engine(url(database, "psycopg"), poolclass=NullPool)
        async with AsyncSession(async_engine) as session, async_engine.connect() as connection:
            for asynchronous in (session, connection):
                with pytest.raises(UsageError, match="the connection is asynchronous"):
                    outbox.record_event(asynchronous, "order.paid")
        with Session(engine) as session, pytest.raises(UsageError, match="the connection is blocking"):
            await outbox.arecord_event(session, "order.paid")
        with engine.connect() as connection, pytest.raises(UsageError, match="the connection is blocking"):
            await outbox.arecord_event(connection, "order.paid")

    asyncio.run(record())


@pytest.mark.parametrize("driver", ASYNC_DRIVERS)
def test_asyncio_sessions_and_connections_record_alike(database, admin, driver):
    async def record():
        engine = create_async_engine(url(database, driver), poolclass=NullPool)
        async with AsyncSession(engine) as session:
            await session.execute(text("insert into orders values (1)"))
            ids = [await outbox.arecord_event(session, "e1", {"a": 1}, key="k", delay=5)]
            ids += await outbox.arecord_events(session, [Event("e2"), Event("e3")])
            nested = await session.begin_nested()
            await outbox.arecord_event(session, "rolled.back")
            await nested.rollback()
            with pytest.raises(InvalidEvent):
                await outbox.arecord_event(session, "refused", float("nan"))
            await session.commit()
            await outbox.arecord_event(session, "rolled.back")
            await session.rollback()
        async with engine.begin() as connection:
            ids.append(await outbox.arecord_event(connection, "e4"))
        scoped = async_scoped_session(async_sessionmaker(engine), scopefunc=asyncio.current_task)
        ids.append(await outbox.arecord_event(scoped, "e5"))
        await scoped.commit()
        await scoped.remove()
        return ids

    ids = asyncio.run(record())
    assert recorded(admin) == ["e1", "e2", "e3", "e4", "e5"]
    assert admin.execute("select array_agg(id order by id) from outbox.events").fetchone() == (ids,)
    assert count(admin, "deliveries") == 5


@pytest.mark.parametrize("driver", ASYNC_DRIVERS)
def test_asyncio_refusals_are_the_same_errors(database, admin, driver):
    async def record():
        engine = create_async_engine(url(database, driver), poolclass=NullPool)
        async with AsyncSession(engine) as session:
            await outbox.arecord_event(session, "e1", idempotency_key="k")
            with pytest.raises(IdempotencyConflict, match='idempotency key "k" was already used for event'):
                async with session.begin_nested():
                    await outbox.arecord_event(session, "e2", idempotency_key="k")
            with pytest.raises(InvalidEvent, match='destination: there is none named "nowhere"'):
                async with session.begin_nested():
                    await outbox.arecord_event(session, "e3", destination="nowhere")
            await session.commit()

    asyncio.run(record())
    assert recorded(admin) == ["e1"]


@pytest.mark.parametrize("driver", ASYNC_DRIVERS)
def test_t14_asyncio_autocommit_is_refused(database, admin, driver):
    async def record():
        engine = create_async_engine(url(database, driver), poolclass=NullPool, isolation_level="AUTOCOMMIT")
        async with engine.connect() as connection:
            with pytest.raises(TransactionRequired):
                await outbox.arecord_event(connection, "refused")
            await outbox.arecord_event(connection, "allowed", allow_autocommit=True)
        async with AsyncSession(engine) as session:
            with pytest.raises(TransactionRequired):
                await outbox.arecord_events(session, [Event("refused")])

    asyncio.run(record())
    assert recorded(admin) == ["allowed"]


def test_x02_a_role_without_grants_is_told_the_remedy_under_the_wrapping_of_sqlalchemy(database, admin_of_roles, login):
    role = login().info.user
    engine = create_engine(url(database, "psycopg").set(username=role), poolclass=NullPool)
    with Session(engine) as session, pytest.raises(DBAPIError) as denied:
        outbox.record_event(session, "order.paid")
    assert denied.value.__notes__ == [f"role {role} may not record events; run: GRANT outbox_writer TO {role}"]
