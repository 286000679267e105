"""Every text argument of every SQL function takes hostile text for text: it is stored as it is, or refused."""

from __future__ import annotations

import json

import psycopg
import pytest
from psycopg import sql

from tests.payloads import HOSTILE, Canary
from tests.queues import add_destination, count, record

TEXT_TYPES = ("text", "jsonb", "json", "text[]", "regclass")
SYNTAX = "42601"
"""SQLSTATE of what a string glued into a statement leads to, if it does no harm."""

PLAIN = {
    "text": "order.paid",
    "text[]": ["order.paid"],
    "jsonb": "{}",
    "json": "{}",
    "regclass": "public.orders",
    "integer": 1,
    "bigint": 1,
    "boolean": True,
    "uuid": "0192f0c1-7a2b-7c3d-8e4f-5a6b7c8d9e0f",
    "interval": "30 days",
    "timestamp with time zone": "2026-12-01T00:00:00Z",
    "oid": 1,
}


@pytest.fixture(params=["on", "off"], ids=["standard_strings", "backslash_strings"])
def connection(database, request):
    """A superuser, whom no right holds back; the old setting gives backslashes in literals a meaning."""
    with database.connect() as connection:
        connection.execute("create table public.orders (id integer primary key, note text)")
        add_destination(connection)
        record(connection, key="k", idempotency_key="i")
        connection.execute(f"set standard_conforming_strings = {request.param}")
        connection.execute("set escape_string_warning = off")
        yield connection


@pytest.fixture
def canary(connection):
    canary = Canary(connection)
    yield canary
    canary.check()
    assert (count(connection, "events"), count(connection, "deliveries")) == (1, 1)


def functions(connection) -> list:
    """Return schema, name and argument types of every function of ours that can be called."""
    return connection.execute(
        "select p.proname::text, array(select format_type(t, null) from unnest(p.proargtypes) with ordinality a (t, n)"
        " order by n)::text[] from pg_proc p where p.pronamespace = 'outbox'::regnamespace"
        " and p.prorettype <> 'trigger'::regtype order by 1, 2"
    ).fetchall()


def as_type(kind: str, text: str) -> object:
    if kind == "text[]":
        return [text, text]
    return json.dumps(text) if kind in {"json", "jsonb"} else text


def test_no_function_executes_a_text_argument(connection, canary):
    calls = 0
    for name, kinds in functions(connection):
        for position, hostile_kind in enumerate(kinds):
            if hostile_kind not in TEXT_TYPES:
                continue
            for label, text in HOSTILE.items():
                arguments = [PLAIN.get(kind) for kind in kinds]
                arguments[position] = as_type(hostile_kind, text)
                sqlstate = call(connection, name, kinds, arguments)
                assert sqlstate != SYNTAX, f"outbox.{name}, argument {position + 1}: {label}"
                calls += 1
        canary.check()
    assert calls > 1000


def call(connection, name, kinds, arguments) -> str | None:
    """Call a function and take everything back; return the SQLSTATE of its refusal, or None."""
    places = sql.SQL(", ").join(sql.SQL("%s::{}").format(sql.SQL(kind)) for kind in kinds)
    statement = sql.SQL("select * from outbox.{}({})").format(sql.Identifier(name), places)
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(statement, arguments)
    except psycopg.Error as error:
        return error.sqlstate
    return None


@pytest.fixture
def forgotten(connection):
    """Run a block and take back what it did: one database serves all texts."""
    return lambda: connection.transaction(force_rollback=True)


def test_what_is_recorded_arrives_letter_for_letter(connection, canary, forgotten):
    for text in HOSTILE.values():
        header = "".join(letter for letter in text if letter.isascii() and letter.isprintable()).strip()
        with forgotten():
            connection.execute(
                "select outbox.record_event('a.b', %s::jsonb, key => %s, idempotency_key => %s, headers => %s::jsonb)",
                [json.dumps({text: text}), text, text, json.dumps({"x-note": header})],
            )
            batch = [{"type": "a.b", "payload": [text], "key": text, "idempotency_key": text + "2"}]
            connection.execute("select outbox.record_events(%s::jsonb)", [json.dumps(batch)])
            stored = connection.execute(
                "select payload, key, headers from outbox.events where type = 'a.b' order by id"
            ).fetchall()
            assert stored == [({text: text}, text, {"x-note": header}), ([text], text, {})]
            keys = {key for (key,) in connection.execute("select key from outbox.idempotency_keys where key <> 'i'")}
            assert keys == {text, text + "2"}
            assert {key for (key,) in connection.execute("select key from outbox.deliveries")} == {"k", text}
        canary.check()


@pytest.mark.parametrize("arguments", ["%s::text", "'a.b', destination => %s"])
def test_types_and_destinations_are_words_or_refused(connection, canary, forgotten, arguments):
    for label, text in HOSTILE.items():
        with pytest.raises(psycopg.Error) as refused, forgotten():
            connection.execute(f"select outbox.record_event({arguments})", [text])
        assert refused.value.sqlstate in {"OB002", "OB006"}, label


def test_tables_and_columns_of_any_name_are_captured_and_released(connection, canary, forgotten):
    """Names that would break out of the statement that makes the trigger."""
    for label, text in HOSTILE.items():
        name = text[:50]
        table = sql.SQL("public.{}").format(sql.Identifier(name)).as_string(connection)
        with forgotten():
            column = sql.Identifier(name).as_string(connection)
            connection.execute(f"create table {table} (id integer primary key, {column} text)".encode())
            capture = "select outbox.capture(%s::regclass, 'a.{op}', %s, array['id', %s])"
            connection.execute(capture, [table, name, name])
            value = sql.Literal(text).as_string(connection)
            connection.execute(f"insert into {table} values (1, {value})".encode())  # noqa: S608 - the point of the test
            stored = connection.execute("select key, payload -> 'row' from outbox.events where type = 'a.inserted'")
            assert stored.fetchall() == [(text, {"id": 1, name: text})], label
            assert connection.execute("select outbox.release_capture(%s::regclass)", [table]).fetchone() == (True,)
        canary.check()


@pytest.mark.parametrize(
    "arguments", ["'public.orders', key => %s", "'public.orders', columns => array[%s]", "'public.orders', type => %s"]
)
def test_capture_refuses_columns_and_types_that_are_not_there(connection, canary, forgotten, arguments):
    for label, text in HOSTILE.items():
        with pytest.raises(psycopg.Error) as refused, forgotten():
            connection.execute(f"select outbox.capture({arguments})", [text])
        assert refused.value.sqlstate in {"OB002", "OB009"}, label
