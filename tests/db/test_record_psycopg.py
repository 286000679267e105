"""record_event and record_events on psycopg connections and cursors, blocking and asyncio."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

import outbox
from outbox import Event, InvalidEvent, JsonText, OutboxError, TransactionRequired, UsageError
from tests.queues import add_destination, count


@pytest.fixture
def admin(database):
    with database.connect() as admin:
        add_destination(admin)
        yield admin


@pytest.fixture
def connection(database, admin):
    with psycopg.connect(database.dsn) as connection:
        yield connection


def recorded(admin):
    return [row[0] for row in admin.execute("select type from outbox.events order by id").fetchall()]


def test_every_argument_arrives(admin, connection):
    event_id = outbox.record_event(
        connection,
        "order.paid",
        {"a": 1},
        key="k",
        idempotency_key="i",
        headers={"x-a": "b"},
        due_at=datetime(2126, 12, 1, 10, tzinfo=timezone(timedelta(hours=2))),
        destination="shop",
    )
    connection.commit()
    assert isinstance(event_id, UUID)
    row = admin.execute(
        "select e.id, e.type, e.payload, e.key, e.headers, d.key, d.due_at = timestamptz '2126-12-01 08:00:00+00',"
        " (select event_id from outbox.idempotency_keys where key = 'i')"
        " from outbox.events e join outbox.deliveries d on d.event_id = e.id"
    ).fetchone()
    assert row == (event_id, "order.paid", {"a": 1}, "k", {"x-a": "b"}, "k", True, event_id)


def test_defaults_are_those_of_sql(admin, connection):
    outbox.record_event(connection, "order.paid")
    connection.commit()
    assert admin.execute("select payload, headers, key from outbox.events").fetchall() == [({}, {}, None)]


@pytest.mark.parametrize("delay", [90, 90.5, timedelta(seconds=90)])
def test_a_delay_counts_on_the_clock_of_the_database(admin, connection, delay):
    outbox.record_event(connection, "order.paid", delay=delay)
    outbox.record_events(connection, [Event("order.paid", delay=delay)])
    connection.commit()
    waits = admin.execute(
        "select extract(epoch from due_at - recorded_at) between 89 and 92 from outbox.deliveries"
    ).fetchall()
    assert waits == [(True,), (True,)]


def test_payloads_of_all_kinds_arrive_as_they_are(admin, connection):
    payloads = [None, True, 0, -1.5, "x", [], [1, [2]], {"é": "😀"}, JsonText('{"b": 1.10}')]
    outbox.record_events(connection, [Event("a", payload) for payload in payloads])
    for payload in payloads:
        outbox.record_event(connection, "a", payload)
    connection.commit()
    stored = [row[0] for row in admin.execute("select payload::text from outbox.events order by id").fetchall()]
    assert stored[:9] == stored[9:]
    assert stored[:9] == ["null", "true", "0", "-1.5", '"x"', "[]", "[1, [2]]", '{"é": "😀"}', '{"b": 1.10}']


def test_a_cursor_records_in_its_connection_and_keeps_its_rows(admin, connection):
    with connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute("select 1 as one union all select 2")
        assert cursor.fetchone() == {"one": 1}
        outbox.record_event(cursor, "order.paid")
        assert cursor.fetchone() == {"one": 2}
    connection.rollback()
    assert recorded(admin) == []


@pytest.mark.parametrize("factory", [psycopg.RawCursor, psycopg.ClientCursor, psycopg.Cursor])
def test_the_connections_own_factories_change_nothing(database, admin, factory):
    with psycopg.connect(database.dsn, cursor_factory=factory, row_factory=dict_row) as connection:
        connection.execute("select 1")
        assert isinstance(outbox.record_event(connection, "order.paid"), UUID)
        assert len(outbox.record_events(connection, [Event("a"), Event("b")])) == 2
    assert recorded(admin) == ["order.paid", "a", "b"]


def test_a_server_side_cursor_records_in_its_connection(admin, connection):
    with connection.cursor("rows") as cursor:
        cursor.execute("select 1")
        outbox.record_event(cursor, "order.paid")
    connection.commit()
    assert recorded(admin) == ["order.paid"]


def test_recording_works_in_a_pipeline(admin, connection):
    with connection.pipeline():
        connection.execute("select 1")
        outbox.record_event(connection, "a")
        outbox.record_events(connection, [Event("b")])
        connection.execute("select 1")
    connection.commit()
    assert recorded(admin) == ["a", "b"]


def test_a_connection_of_a_pool_records_and_the_pool_itself_is_refused(database, admin):
    with ConnectionPool(database.dsn, min_size=1) as pool:
        with pool.connection() as connection:
            outbox.record_event(connection, "order.paid")
        with pytest.raises(UsageError, match="ConnectionPool lends another connection each time"):
            outbox.record_event(pool, "order.paid")
    assert recorded(admin) == ["order.paid"]


def test_t02_rolled_back_savepoints_and_transactions_record_nothing(admin, connection):
    outbox.record_event(connection, "e1")
    with connection.transaction() as savepoint:
        outbox.record_event(connection, "e2")
        raise psycopg.Rollback(savepoint)
    outbox.record_event(connection, "e3")
    connection.commit()
    outbox.record_event(connection, "e4")
    connection.rollback()
    connection.execute("create table unrelated ()")
    connection.commit()
    assert recorded(admin) == ["e1", "e3"]
    assert count(admin, "deliveries") == 2


def test_t02_a_commit_right_before_kill_9_is_enough(database, admin):
    code = (
        "import os, psycopg, outbox, signal\n"
        f"connection = psycopg.connect({database.dsn!r})\n"
        "outbox.record_event(connection, 'e5')\n"
        "connection.commit()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert recorded(admin) == ["e5"]


def test_t14_autocommit_without_a_transaction_is_refused(database, admin):
    with database.connect() as connection:
        for call in (
            lambda: outbox.record_event(connection, "order.paid"),
            lambda: outbox.record_events(connection, [Event("order.paid")]),
            lambda: outbox.record_events(connection, []),
        ):
            with pytest.raises(
                TransactionRequired, match="must run inside the same transaction as your data"
            ) as refused:
                call()
            assert "allow_autocommit=True" in str(refused.value)
        outbox.record_event(connection, "allowed", allow_autocommit=True)
        with connection.transaction():
            outbox.record_event(connection, "in.transaction")
        connection.execute("begin")
        outbox.record_event(connection, "in.begin")
        connection.execute("commit")
    assert recorded(admin) == ["allowed", "in.transaction", "in.begin"]


def test_t14_an_aborted_transaction_says_so_itself(connection):
    with pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute("select 1 / 0")
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        outbox.record_event(connection, "order.paid")


def test_t14_a_closed_connection_says_so_itself(database):
    connection = psycopg.connect(database.dsn)
    connection.close()
    with pytest.raises(psycopg.OperationalError, match="closed"):
        outbox.record_event(connection, "order.paid")


def test_t14_recording_never_ends_or_begins_a_transaction(admin, connection):
    connection.execute("select 1")
    (before,) = connection.execute("select pg_current_xact_id()").fetchone()
    outbox.record_event(connection, "order.paid")
    outbox.record_events(connection, [Event("order.paid")])
    assert connection.execute("select pg_current_xact_id()").fetchone() == (before,)
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS


@pytest.mark.parametrize("payload", [float("nan"), {"a": {1}}, {"a": datetime.now(UTC)}, {1: 2}, "a\0"])
def test_t09_what_python_refuses_is_never_sent(admin, connection, payload):
    connection.execute("create table business (id integer)")
    with pytest.raises(InvalidEvent):
        outbox.record_event(connection, "order.paid", payload)
    with pytest.raises(InvalidEvent, match=r"events\[1\] payload: \$"):
        outbox.record_events(connection, [Event("a"), Event("a", payload)])
    connection.execute("insert into business values (1)")
    connection.commit()
    assert recorded(admin) == []


def test_what_only_the_database_knows_comes_back_as_the_same_errors(connection):
    with (
        pytest.raises(InvalidEvent, match='destination: there is none named "nowhere"') as refused,
        connection.transaction(),
    ):
        outbox.record_event(connection, "order.paid", destination="nowhere")
    assert refused.value.__cause__.diag.sqlstate == "OB006"
    with pytest.raises(InvalidEvent, match=r"events\[1\] payload: 300002 bytes"), connection.transaction():
        outbox.record_events(connection, [Event("a"), Event("a", "x" * 300_000)])
    outbox.record_event(connection, "still.usable")


def test_errors_of_the_database_pass_through_untouched(connection):
    connection.execute("set local lock_timeout = 1")
    connection.execute("set transaction read only")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction) as passed:
        outbox.record_event(connection, "order.paid")
    assert not isinstance(passed.value, OutboxError)


def test_json_text_that_is_no_json_is_an_error_of_the_database(connection):
    with pytest.raises(psycopg.errors.InvalidTextRepresentation):
        outbox.record_event(connection, "order.paid", JsonText("{"))


def test_a_missing_schema_names_the_remedy(empty_database):
    with psycopg.connect(empty_database.dsn) as connection, pytest.raises(psycopg.errors.InvalidSchemaName) as failed:
        outbox.record_event(connection, "order.paid")
    assert failed.value.__notes__ == ["the schema outbox is missing; run: outbox migrate"]


@pytest.mark.parametrize("thing", [None, 1, object(), "postgresql://user:SECRET@host/db"])
def test_what_is_no_connection_is_refused_without_showing_it(thing):
    with pytest.raises(UsageError, match="cannot record on") as refused:
        outbox.record_event(thing, "order.paid")
    assert "SECRET" not in str(refused.value)


@pytest.mark.parametrize("events", [[{"type": "a"}], "order.paid", {"type": "a"}, [("a", {})], [Event("a"), None]])
def test_what_is_no_event_is_refused_with_its_position_before_anything_is_sent(admin, connection, events):
    with pytest.raises(InvalidEvent, match=r"events\[[01]\] is \w+, not an outbox\.Event"):
        outbox.record_events(connection, events)
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_a_generator_of_events_is_fine(admin, connection):
    ids = outbox.record_events(connection, (Event(f"e{number}") for number in range(3)))
    connection.commit()
    assert admin.execute("select array_agg(id order by id) from outbox.events").fetchone() == (ids,)


def test_asyncio_records_alike(database, admin):
    async def record():
        async with await psycopg.AsyncConnection.connect(database.dsn, row_factory=dict_row) as connection:
            first = await outbox.arecord_event(connection, "e1", {"a": 1}, key="k", delay=5)
            async with connection.cursor() as cursor:
                others = await outbox.arecord_events(cursor, [Event("e2"), Event("e3")])
            with pytest.raises(UsageError, match=r"await outbox\.arecord_event"):
                outbox.record_event(connection, "e4")
            async with connection.transaction() as savepoint:
                await outbox.arecord_event(connection, "e5")
                raise psycopg.Rollback(savepoint)
            with pytest.raises(InvalidEvent):
                await outbox.arecord_event(connection, "e6", float("nan"))
            return [first, *others]

    ids = asyncio.run(record())
    assert recorded(admin) == ["e1", "e2", "e3"]
    assert admin.execute("select array_agg(id order by id) from outbox.events").fetchone() == (ids,)


def test_t14_asyncio_in_autocommit_is_refused_alike(database, admin):
    async def record():
        async with await psycopg.AsyncConnection.connect(database.dsn, autocommit=True) as connection:
            with pytest.raises(TransactionRequired):
                await outbox.arecord_event(connection, "refused")
            with pytest.raises(TransactionRequired):
                await outbox.arecord_events(connection, [Event("refused")])
            await outbox.arecord_event(connection, "allowed", allow_autocommit=True)
            async with connection.transaction():
                await outbox.arecord_event(connection, "in.transaction")
        async with AsyncConnectionPool(database.dsn, open=False) as pool, pool.connection() as connection:
            await outbox.arecord_event(connection, "in.pool")

    asyncio.run(record())
    assert recorded(admin) == ["allowed", "in.transaction", "in.pool"]


def test_a_blocking_connection_is_refused_in_asyncio(connection):
    async def record():
        with pytest.raises(UsageError, match="the connection is blocking"):
            await outbox.arecord_event(connection, "order.paid")

    asyncio.run(record())


@pytest.mark.parametrize("level", list(psycopg.IsolationLevel))
def test_every_isolation_level_records(database, admin, level):
    with psycopg.connect(database.dsn) as connection:
        connection.isolation_level = level
        outbox.record_event(connection, "order.paid", key="k", idempotency_key="i")
        outbox.record_events(connection, [Event("order.paid", key="k", idempotency_key="j")])
    assert count(admin, "deliveries") == 2


def test_serializable_recorders_of_other_keys_do_not_fail_each_other(database, admin):
    with psycopg.connect(database.dsn) as one, psycopg.connect(database.dsn) as other:
        for number, connection in enumerate((one, other)):
            connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
            outbox.record_event(connection, "order.paid", key="k", idempotency_key=f"i{number}")
        one.commit()
        other.commit()
    assert count(admin, "events") == 2


@pytest.mark.parametrize("zone", ["UTC", "America/Sao_Paulo", "Asia/Kolkata"])
def test_t15_a_due_time_is_the_same_instant_in_every_zone(database, admin, zone):
    due_at = datetime(2126, 11, 1, 1, 30, tzinfo=timezone(timedelta(hours=-5)))
    with psycopg.connect(database.dsn) as connection:
        connection.execute("select set_config('timezone', %s, false)", [zone])
        outbox.record_event(connection, "a", due_at=due_at)
        outbox.record_events(connection, [Event("a", due_at=due_at), Event("a")])
    dues = admin.execute("select due_at = %s, due_at <= clock_timestamp() from outbox.deliveries order by id", [due_at])
    assert dues.fetchall() == [(True, False), (True, False), (False, True)]


LANGUAGES = ["C", "de_DE.UTF-8", "de_DE.utf8", "ja_JP.UTF-8", "pt_BR.UTF-8"]


def test_messages_in_another_language_change_nothing(database, admin):
    """Errors are told apart by SQLSTATE; of the languages here, those the server has."""
    spoken = 0
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        for language in LANGUAGES:
            try:
                connection.execute("select set_config('lc_messages', %s, false)", [language])
            except psycopg.errors.InvalidParameterValue:
                continue
            spoken += 1
            with pytest.raises(InvalidEvent, match="there is none named"):
                outbox.record_event(connection, "a", destination="nowhere", allow_autocommit=True)
            with pytest.raises(psycopg.errors.InvalidTextRepresentation):
                outbox.record_event(connection, "a", JsonText("{"), allow_autocommit=True)
            outbox.record_event(connection, "a", allow_autocommit=True)
    assert spoken >= 1
    assert count(admin, "events") == spoken


def test_import_outbox_loads_no_driver_and_no_web_library():
    code = (
        "import sys, outbox\n"
        "heavy = {'psycopg', 'asyncpg', 'sqlalchemy', 'django', 'opentelemetry', 'aiohttp', 'aiosmtplib', 'typer',"
        " 'rich', 'tenacity', 'asyncio', 'pytest'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, text=True, stdout=subprocess.PIPE)
    assert done.stdout.strip() == "[]"
