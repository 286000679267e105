"""Statements that are never answered are given up: asked to be cancelled first, then cut off."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from outbox.errors import DatabaseUnreachable
from relays import bootstrap, patience
from relays.patience import Patience, answering_within
from tests.chaos.proxy import Proxy, upstream
from tests.processes import relay_process

SLOW = "select pg_sleep(100)"
FIRST = 1.5
"""Seconds: far longer than `select 1` takes on a starved machine."""


@pytest.fixture
def proxy(database):
    with Proxy(upstream(conninfo_to_dict(database.dsn))) as proxy:
        yield proxy


@pytest.fixture
def through(database, proxy) -> str:
    """The DSN through the proxy."""
    return make_conninfo(database.dsn, host="127.0.0.1", port=proxy.port)


@pytest.fixture
def impatient(monkeypatch) -> Patience:
    monkeypatch.setattr(patience, "ANSWER_SECONDS", FIRST)
    monkeypatch.setattr(patience, "CANCEL_SECONDS", 5.0)
    return Patience()


def test_c12_a_slow_server_is_asked_to_cancel(database, impatient):
    async def ask() -> None:
        async with await psycopg.AsyncConnection.connect(database.dsn, autocommit=True) as connection:
            with pytest.raises(psycopg.errors.QueryCanceled), impatient.waiting(connection):
                await connection.execute(SLOW)
            with impatient.waiting(connection):
                await connection.execute("select 1")  # the connection can still be used

    asyncio.run(ask())


def test_c12_a_silent_server_is_cut_off(proxy, through, impatient):
    async def ask() -> None:
        connection = await psycopg.AsyncConnection.connect(through, autocommit=True)
        proxy.silence()
        with pytest.raises(psycopg.OperationalError), impatient.waiting(connection):
            await connection.execute("select 1")
        assert connection.closed

    asyncio.run(ask())


def test_patience_doubles_while_statements_take_too_long_and_is_the_first_again_after_an_answer(database, impatient):
    async def ask() -> None:
        async with await psycopg.AsyncConnection.connect(database.dsn, autocommit=True) as connection:
            for seconds in (2 * FIRST, 4 * FIRST):
                with pytest.raises(psycopg.errors.QueryCanceled), impatient.waiting(connection):
                    await connection.execute(SLOW)
                assert impatient._seconds == seconds
            with impatient.waiting(connection):
                await connection.execute("select 1")
            assert impatient._seconds == FIRST

    asyncio.run(ask())


def test_c12_a_thread_waits_no_longer_than_it_is_told(proxy, through):
    connection = psycopg.connect(through, autocommit=True)
    proxy.silence()
    with pytest.raises(psycopg.OperationalError), answering_within(FIRST, connection):
        connection.execute("select 1")
    assert connection.closed


def test_c12_a_relay_that_gets_no_answer_at_its_start_ends_with_one_line(database):
    with database.connect() as blocker, blocker.transaction():
        blocker.execute("lock table outbox.migrations in access exclusive mode")
        with relay_process(database.dsn) as relay:
            assert relay.ended(100) == DatabaseUnreachable.exit_code
    assert "Traceback" not in relay.output


def test_c12_a_look_for_a_pooler_that_gets_no_answer_says_so(proxy, through, monkeypatch):
    monkeypatch.setattr(bootstrap, "LOOK_SECONDS", FIRST)

    async def look() -> None:
        proxy.silence()
        await bootstrap.is_pooled(through)

    with pytest.raises(DatabaseUnreachable, match=r"no answer from the database within 1\.5 s"):
        asyncio.run(look())
