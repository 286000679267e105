"""Every way to write a call of outbox.record_event resolves to one function, and stores the same event."""

from __future__ import annotations

import asyncio
import json
import uuid
from itertools import product

import asyncpg
import psycopg
import pytest
from psycopg.types.json import Json, Jsonb

PAYLOADS = [
    """'{"a": 1.10}'""",
    """'{"a": 1.10}'::text""",
    "json_build_object('a', 1.10)",
    "jsonb_build_object('a', 1.10)",
]
HEADERS = ["""'{"x-a": "b"}'""", "jsonb_build_object('x-a', 'b')"]
KEYS = ["'k'", "'k'::text", "'k'::varchar(9)"]
SHAPES = [
    "'t', {payload}, {key}, null, {headers}",
    "'t'::text, {payload}, {key}, null, {headers}, null, null",
    "'t', {payload}, {key}, null, {headers}, now()",
    "'t', {payload}, {key}, headers => {headers}",
    "'t', {payload}, headers => {headers}, key => {key}",
    "'t', payload => {payload}, key => {key}, headers => {headers}",
    "type => 't', headers => {headers}, payload => {payload}, key => {key}, due_at => now() + interval '1 hour'",
    (
        "headers => {headers}, key => {key}, due_at => '2126-12-01 00:00Z', destination => null,"
        " idempotency_key => null, payload => {payload}, type => 't'::text"
    ),
]
STORED = ("t", {"a": 1.1}, "k", {"x-a": "b"})


@pytest.fixture
def connection(database):
    with database.connect() as connection:
        yield connection


def stored(connection):
    return connection.execute("select type, payload, key, headers from outbox.events order by id").fetchall()


@pytest.mark.parametrize("shape", SHAPES)
def test_arguments_by_position_and_by_name_resolve_whatever_their_types(connection, shape):
    calls = list(product(PAYLOADS, HEADERS, KEYS))
    for payload, headers, key in calls:
        connection.execute(f"select outbox.record_event({shape.format(payload=payload, headers=headers, key=key)})")
    assert stored(connection) == [STORED] * len(calls)


@pytest.mark.parametrize(
    "call",
    [
        "'t'",
        "type => 't'",
        "'t', key => null",
        "'t', '{}'",
        "'t', '{}', null",
        "'t', payload => '{}'",
        "'t', '{}'::text",
        "'t', '{}'::varchar",
        "'t', jsonb_build_object()",
        "'t', json_build_object(), key => null",
        "'t', headers => '{}'",
        "'t', headers => '{}'::text",
        "'t', headers => jsonb_build_object()",
        "'t', headers => '{}', key => null, idempotency_key => null, due_at => null, destination => null",
        "'t', '{}', headers => '{}'::text",
        "'t', '{}', idempotency_key => 'i', due_at => now()",
        "'t', (select to_jsonb(x) from (select) x)",
        "'t', (select row_to_json(x) from (select) x), headers => coalesce(null, jsonb '{}')",
    ],
)
def test_arguments_left_out_are_the_defaults(connection, call):
    connection.execute(f"select outbox.record_event({call})")
    assert stored(connection) == [("t", {}, None, {})]


@pytest.mark.parametrize("payload", ['{"a": 1.10}', Json({"a": 1.1}), Jsonb({"a": 1.1})], ids=["str", "Json", "Jsonb"])
@pytest.mark.parametrize("headers", ['{"x-a": "b"}', Jsonb({"x-a": "b"})], ids=["str", "Jsonb"])
@pytest.mark.parametrize("prepare", [False, True])
def test_parameters_of_psycopg_resolve(connection, payload, headers, prepare):
    for call in ("'t', %s, %s, headers => %s", "'t', payload => %s, key => %s, headers => %s", "'t', %s, %s, null, %s"):
        connection.execute(f"select outbox.record_event({call})", [payload, "k", headers], prepare=prepare)
    assert stored(connection) == [STORED] * 3


@pytest.mark.parametrize("cast", ["", "::text", "::json", "::jsonb"])
def test_parameters_of_asyncpg_resolve(database, connection, cast):
    async def record():
        client = await asyncpg.connect(dsn=url(database.dsn))
        try:
            for call in (f"$1, $2{cast}, $3, headers => $4", f"$1, $2{cast}, $3, headers => $4::jsonb"):
                await client.fetchval(f"select outbox.record_event({call})", "t", '{"a": 1.10}', "k", '{"x-a": "b"}')
        finally:
            await client.close()

    asyncio.run(record())
    assert stored(connection) == [STORED] * 2


def url(dsn: str) -> str:
    """Return `dsn` as asyncpg reads it."""
    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    return f"postgresql://{parts['user']}@/{parts['dbname']}?host={parts['host']}&port={parts['port']}"


def test_a_batch_is_taken_as_text_json_and_jsonb(connection):
    batch = json.dumps([{"type": "t", "payload": {"a": 1.1}, "key": "k", "headers": {"x-a": "b"}}])
    for events in (f"'{batch}'", f"'{batch}'::text", f"'{batch}'::json", f"'{batch}'::jsonb"):
        connection.execute(f"select outbox.record_events({events})")
    connection.execute(
        "select outbox.record_events(json_agg(x)) from (select 't' as type, json_build_object('a', 1.1) as payload,"
        """ 'k' as key, json '{"x-a": "b"}' as headers) x"""
    )
    assert stored(connection) == [STORED] * 5


@pytest.mark.parametrize(
    ("call", "path"),
    [
        (r"""'t', '{"a": "\u0000"}', headers => jsonb_build_object()""", "payload: $.a"),
        (r"""'t', '{"a": "\u0000"}'::json, headers => '{}'""", "payload: $.a"),
        (r"""'t', headers => '{"x-a": "\u0000"}'""", 'headers: $."x-a"'),
        (r"""'t', key => 'k', headers => '{"x-a": "\u0000"}'""", 'headers: $."x-a"'),
        (r"""'t', '{}', 'k', null, '{"x-a": "\u0000"}'""", 'headers: $."x-a"'),
        (r"""'t', to_jsonb(1)::text, headers => '{"x-a": "\u0000"}'::text""", 'headers: $."x-a"'),
    ],
)
def test_t08_nul_is_refused_with_its_path_in_every_form_that_sees_text(connection, call, path):
    with pytest.raises(psycopg.Error) as refused:
        connection.execute(f"select outbox.record_event({call})")
    assert refused.value.diag.sqlstate == "OB003"
    assert refused.value.diag.message_primary.startswith(f"{path}: NUL (\\u0000) is not storable in PostgreSQL")


@pytest.mark.parametrize(
    "call", [r"""'t', '{"a": "\u0000"}'::jsonb""", r"""'t', jsonb '{}', headers => '{"x-a": "\u0000"}'"""]
)
def test_what_is_jsonb_before_the_call_is_refused_by_postgresql_itself(connection, call):
    """The limit that sql/README.md tells: PostgreSQL parses such a literal before any function is called."""
    with pytest.raises(psycopg.errors.UntranslatableCharacter):
        connection.execute(f"select outbox.record_event({call})")
    assert stored(connection) == []


def test_x02_a_writer_may_use_every_form(admin_of_roles, login):
    writer = login("outbox_writer")
    key = str(uuid.uuid4())
    for payload, headers in product(PAYLOADS, HEADERS):
        writer.execute(f"select outbox.record_event('t', {payload}, '{key}', headers => {headers})")
    writer.execute("select outbox.record_event('t', headers => '{}')")
    writer.execute("""select outbox.record_events('[{"type": "t"}]'::json)""")
    assert len(stored(admin_of_roles)) == len(PAYLOADS) * len(HEADERS) + 2
