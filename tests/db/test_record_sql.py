"""outbox.record_event and outbox.record_events as any language, psql or a trigger calls them."""

from __future__ import annotations

import json
from decimal import Decimal
from uuid import UUID

import psycopg
import pytest

from tests.queues import add_destination, open_deliveries


@pytest.fixture
def connection(database):
    with database.connect() as connection:
        yield connection


def events(connection):
    return connection.execute("select type, payload::text, key, headers from outbox.events order by id").fetchall()


def routed(connection):
    """Return (event type, destination) of the open deliveries, in order."""
    return connection.execute(
        "select e.type, t.name from outbox.deliveries d join outbox.events e on e.id = d.event_id"
        " join outbox.destinations t on t.id = d.destination_id order by d.id"
    ).fetchall()


def refusal(connection, sql, parameters=()):
    with pytest.raises(psycopg.Error) as refused:
        connection.execute(sql, parameters)
    return refused.value.diag.sqlstate, refused.value.diag.message_primary


def test_a_call_records_the_event_and_returns_its_id(connection):
    (event_id,) = connection.execute(
        """select outbox.record_event('order.paid', '{"a": 1}', key => 'k', headers => '{"x-a": "b"}')"""
    ).fetchone()
    assert event_id.version == 7
    assert events(connection) == [("order.paid", '{"a": 1}', "k", {"x-a": "b"})]


def test_each_active_or_held_destination_with_a_matching_pattern_gets_a_delivery(connection):
    for name, patterns, state in [
        ("all", ["*"], "active"),
        ("orders", ["order.*"], "paused"),
        ("items", ["order.item.*"], "tripped"),
        ("exact", ["order.item.added"], "disabled"),
        ("others", ["item.*", "order.item", "order.item.added.late", "rder.*", "order.item.a*"], "active"),
        ("none", [], "active"),
        ("gone", ["*"], "active"),
    ]:
        add_destination(connection, name, event_types=patterns)
        connection.execute("update outbox.destinations set state = %s where name = %s", [state, name])
    connection.execute("update outbox.destinations set removed_at = now() where name = 'gone'")
    connection.execute("select outbox.record_event('order.item.added')")
    assert {name for _, name in routed(connection)} == {"all", "orders", "items", "exact"}


def test_a_prefix_pattern_does_not_match_the_bare_prefix(connection):
    add_destination(connection, event_types=["order.*"])
    connection.execute("select outbox.record_event('order')")
    assert routed(connection) == []
    assert len(events(connection)) == 1


def test_a_named_destination_is_the_only_one(connection):
    add_destination(connection, "all", event_types=["*"])
    add_destination(connection, "named", event_types=[])
    connection.execute("select outbox.record_event('order.paid', destination => 'named')")
    assert routed(connection) == [("order.paid", "named")]


def test_an_unknown_or_removed_destination_is_refused_by_name(connection):
    add_destination(connection, "gone")
    connection.execute("update outbox.destinations set removed_at = now()")
    sqlstate, message = refusal(connection, "select outbox.record_event('a', destination => 'gone')")
    assert sqlstate == "OB006"
    assert message.startswith('destination: there is none named "gone"')
    assert events(connection) == []


def test_ten_thousand_destinations_are_routed_by_index(connection):
    connection.execute(
        "insert into outbox.destinations (name, sink, event_types)"
        " select 'tenant-' || n, 'test', array['tenant_' || n || '.*'] from generate_series(1, 10000) n"
    )
    connection.execute("analyze outbox.destinations")
    connection.execute("select outbox.record_event('tenant_77.order.paid')")
    assert routed(connection) == [("tenant_77.order.paid", "tenant-77")]


def test_a_due_time_in_the_past_is_now_and_one_in_the_future_stays(connection):
    add_destination(connection)
    connection.execute("set timezone = 'UTC'")
    connection.execute("select outbox.record_event('a', due_at => now() - interval '1 year')")
    connection.execute("select outbox.record_event('a', due_at => '2126-12-01 00:00:00+00')")
    dues = connection.execute(
        "select case when due_at > now() + interval '1 hour' then due_at::text"
        " else (clock_timestamp() - due_at < interval '1 minute')::text end from outbox.deliveries order by id"
    ).fetchall()
    assert dues == [("true",), ("2126-12-01 00:00:00+00",)]


def test_t11_numbers_keep_their_digits(connection):
    payload = (
        '{"a": 9007199254740993, "b": 8202522731445525542, "c": 1.10, "d": 0.1, "e": -0.0, "f": 1e308,'
        ' "g": 1234567890123456789012345678901234567890.5}'
    )
    connection.execute("select outbox.record_event('a', %s)", [payload])
    ((_, stored, _, _),) = events(connection)
    exact = {"parse_int": Decimal, "parse_float": Decimal}
    assert json.loads(stored, **exact) == json.loads(payload, **exact)
    assert '"c": 1.10' in stored


@pytest.mark.parametrize(
    ("call", "sqlstate", "message"),
    [
        ("record_event('a b')", "OB002", 'type: "a b" is not dotted words'),
        ("record_event('')", "OB002", 'type: "" is not dotted words'),
        ("record_event(null)", "OB002", "type: null is not dotted words"),
        ("record_event('order.*')", "OB002", 'type: "order.*" is not dotted words'),
        ("record_event(e'a\\n')", "OB002", 'type: "a\\n" is not dotted words'),
        ("record_event('é')", "OB002", "is not dotted words"),
        ("record_event(repeat('a', 201))", "OB002", "type: 201 characters are too many"),
        ("record_event('a', key => '')", "OB002", "key: 0 characters"),
        ("record_event('a', key => repeat('k', 256))", "OB002", "key: 256 characters"),
        ("record_event('a', idempotency_key => '')", "OB002", "idempotency_key: 0 characters"),
        ("record_event('a', null::jsonb)", "OB003", "payload: SQL null"),
        ("record_event('a', null)", "OB003", "payload: SQL null"),
        ("record_event('a', headers => null)", "OB005", "headers: SQL null"),
        ("record_event('a', headers => '[]')", "OB005", "headers: a JSON array"),
        ("record_event('a', headers => '\"x\"')", "OB005", "headers: a JSON string"),
        ("record_event('a', due_at => 'infinity')", "OB002", "due_at: is infinite"),
        ("record_event('a', due_at => '-infinity')", "OB002", "due_at: is infinite"),
        ("record_event('a', due_at => '10000-01-01')", "OB002", "due_at: is infinite or after"),
        ("record_event('a', to_jsonb(repeat('SECRET', 50000)))", "OB004", "payload: 300002 bytes"),
        ("record_event('a', '[1e131071, 1e131071]'::jsonb)", "OB004", "payload: 262148 bytes"),
        ("record_events('{}')", "OB007", "events: is not a JSON array"),
        ("record_events(null::jsonb)", "OB007", "events: is not a JSON array"),
        ('record_events(\'[{"type": "a"}, 3]\')', "OB007", "events[1] is a JSON number"),
        ('record_events(\'[{"type": "a", "kye": 1}]\')', "OB007", "events[0] has a field that no event has"),
        ("record_events('[{\"payload\": 1}]')", "OB002", "events[0] type: is missing"),
        ("record_events('[{\"type\": 5}]')", "OB002", "events[0] type: is missing or not a string"),
        ('record_events(\'[{"type": "a", "key": 5}]\')', "OB002", "events[0] key: is not a string"),
        ('record_events(\'[{"type": "a b"}]\')', "OB002", 'events[0] type: "a b"'),
        ('record_events(\'[{"type": "a", "destination": "x"}]\')', "OB006", "events[0] destination: there is none"),
        ('record_events(\'[{"type": "a", "headers": {"host": "x"}}]\')', "OB005", 'events[0] headers: "host"'),
        (
            'record_events(\'[{"type": "a", "due_at": "2026-12-01 10:00"}]\')',
            "OB002",
            "events[0] due_at: is not a time with an offset",
        ),
        ('record_events(\'[{"type": "a", "delay_seconds": -1}]\')', "OB002", "events[0] delay_seconds"),
        ('record_events(\'[{"type": "a", "delay_seconds": "1"}]\')', "OB002", "events[0] delay_seconds"),
        (
            'record_events(\'[{"type": "a", "delay_seconds": 1, "due_at": "2026-12-01T10:00Z"}]\')',
            "OB002",
            "events[0] due_at: is given together",
        ),
    ],
)
def test_wrong_arguments_are_refused_by_name_without_their_payload(connection, call, sqlstate, message):
    found_sqlstate, found_message = refusal(connection, f"select outbox.{call}")
    assert found_sqlstate == sqlstate
    assert message in found_message
    assert "SECRET" not in found_message
    assert events(connection) == []


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({"": "1"}, '""'),
        ({"a b": "1"}, '"a b"'),
        ({"é": "1"}, '"é"'),
        ({"x\r\nX-Evil": "1"}, '"x\\r\\nX-Evil"'),
        ({"Host": "1"}, '"Host"'),
        ({"content-LENGTH": "1"}, '"content-LENGTH"'),
        ({"Webhook-Signature": "v1,x"}, '"Webhook-Signature"'),
        ({"proxy-a": "1"}, '"proxy-a"'),
        ({"ce-id": "1"}, '"ce-id"'),
        ({"x-a": "SECRET\r\nX-Evil: 1"}, '"x-a"'),
        ({"x-a": " SECRET"}, '"x-a"'),
        ({"x-a": "SECRET "}, '"x-a"'),
        ({"x-a": "SECRET…"}, '"x-a"'),
        ({"x-a": "SECRET" + "x" * 4096}, '"x-a"'),
        ({"x-a": 1}, '"x-a"'),
        ({"x-a": "SECRET", "X-A": "SECRET"}, "more than once"),
        ({f"x-{number}": "SECRET" for number in range(21)}, "more than 20"),
    ],
    ids=range(17),
)
def test_w08_headers_that_cannot_be_sent_are_refused_by_name(connection, headers, named):
    sqlstate, message = refusal(
        connection, "select outbox.record_event('a', headers => %s::jsonb)", [json.dumps(headers, ensure_ascii=False)]
    )
    assert sqlstate == "OB005"
    assert named in message
    assert "SECRET" not in message


@pytest.mark.parametrize(
    ("call", "path"),
    [
        (r"""record_event('a', '{"a": "x\u0000y"}')""", "payload: $.a"),
        (r"""record_event('a', '{"a": {"b\u0000": 1}}')""", r'payload: $.a."b\u0000"'),
        (r"""record_event('a', '["\\\\u0000", {"c d": "\u0000"}]')""", 'payload: $[1]."c d"'),
        (r"""record_event('a', '"\u0000"'::json)""", "payload: $"),
        (r"""record_event('a', '{}', headers => '{"x-a": "\u0000"}')""", 'headers: $."x-a"'),
        (r"""record_events('[{"type": "a", "payload": ["\u0000"]}]')""", "events: $[0].payload[0]"),
    ],
)
def test_t08_nul_is_refused_with_its_path(connection, call, path):
    sqlstate, message = refusal(connection, f"select outbox.{call}")
    assert sqlstate == "OB003"
    assert message == f"{path}: NUL (\\u0000) is not storable in PostgreSQL; remove or encode it"


def test_text_about_a_nul_is_no_nul(connection):
    connection.execute(r"""select outbox.record_event('a', '{"a": "x\\u0000y"}')""")
    assert events(connection) == [("a", r'{"a": "x\\u0000y"}', None, {})]


def test_json_is_taken_as_row_to_json_returns_it(connection):
    connection.execute("select outbox.record_event('a', row_to_json(r), 'k') from (select 1 as b, 1.10 as c) r")
    assert events(connection) == [("a", '{"b": 1, "c": 1.10}', "k", {})]


def test_the_payload_limit_is_a_setting(connection):
    connection.execute("set outbox.max_payload_bytes = '1000'")
    sqlstate, message = refusal(connection, "select outbox.record_event('a', to_jsonb(repeat('x', 1000)))")
    assert sqlstate == "OB004"
    assert "1002 bytes are more than the limit of 1000" in message
    connection.execute("set outbox.max_payload_bytes = '1048576'")
    connection.execute("select outbox.record_event('a', to_jsonb(repeat('x', 1000000)))")


@pytest.mark.parametrize("nonsense", ["", "many", "-1", "0", "1e9", "999999999"])
def test_a_payload_limit_that_makes_no_sense_fails_no_transaction(connection, nonsense):
    connection.execute("select set_config('outbox.max_payload_bytes', %s, false)", [nonsense])
    connection.execute("select outbox.record_event('a')")


def test_a_batch_is_routed_like_single_events_and_returns_its_ids_in_order(connection):
    add_destination(connection, "orders", event_types=["order.*"])
    add_destination(connection, "all", event_types=["*"])
    ids = connection.execute(
        """select id from outbox.record_events('[
            {"type": "order.paid", "payload": {"n": 1.10}, "key": "k"},
            {"type": "item.sold", "payload": null, "headers": {"x-a": "b"}},
            {"type": "order.late", "destination": "orders", "delay_seconds": 3600},
            {"type": "order.due", "destination": "all", "due_at": "2126-12-01T10:00:00+02:00"}
        ]') with ordinality e (id, n) order by n"""
    ).fetchall()
    stored = connection.execute(
        "select id, type, payload::text, key, headers from outbox.events order by id"
    ).fetchall()
    assert [row[0] for row in stored] == [row[0] for row in ids]
    assert [row[1:] for row in stored] == [
        ("order.paid", '{"n": 1.10}', "k", {}),
        ("item.sold", "null", None, {"x-a": "b"}),
        ("order.late", "{}", None, {}),
        ("order.due", "{}", None, {}),
    ]
    assert routed(connection) == [
        ("order.paid", "orders"),
        ("order.paid", "all"),
        ("item.sold", "all"),
        ("order.late", "orders"),
        ("order.due", "all"),
    ]
    dues = connection.execute(
        "select due_at between now() + interval '59 minutes' and now() + interval '61 minutes',"
        " due_at = timestamptz '2126-12-01 08:00:00+00' from outbox.deliveries order by id desc limit 2"
    ).fetchall()
    assert dues == [(False, True), (True, False)]


def test_a_batch_is_all_or_none(connection):
    add_destination(connection)
    refusal(connection, """select outbox.record_events('[{"type": "a"}, {"type": "a b"}]')""")
    assert events(connection) == []
    assert open_deliveries(connection) == []


def test_an_empty_batch_records_nothing(connection):
    assert connection.execute("select outbox.record_events('[]')").fetchall() == []


def test_deliveries_of_a_batch_stand_in_its_order(connection):
    add_destination(connection)
    batch = [{"type": "a", "payload": number, "key": f"k{number % 7}"} for number in range(500)]
    connection.execute("select outbox.record_events(%s)", [json.dumps(batch)])
    recorded = connection.execute(
        "select e.payload::text::integer from outbox.deliveries d"
        " join outbox.events e on e.id = d.event_id order by d.id"
    ).fetchall()
    assert [row[0] for row in recorded] == list(range(500))


def test_ids_of_a_transaction_sort_as_they_were_recorded(connection):
    rows = connection.execute("select outbox.record_event('a') from generate_series(1, 300)").fetchall()
    ids = [row[0] for row in rows]
    assert ids == sorted(ids)
    assert all(isinstance(id_, UUID) and id_.version == 7 and id_.variant == "specified in RFC 4122" for id_ in ids)


def test_an_id_carries_the_millisecond_it_was_made_in(connection):
    (difference,) = connection.execute(
        "with e as materialized (select outbox.record_event('a') as id)"
        " select extract(epoch from clock_timestamp() - outbox.uuid_moment(id)) from e"
    ).fetchone()
    assert -0.01 < difference < 10


def test_a_read_only_transaction_says_so_itself(connection):
    connection.execute("begin read only")
    sqlstate, _ = refusal(connection, "select outbox.record_event('a')")
    assert sqlstate == "25006"


def test_record_event_works_from_a_trigger_and_a_copy(connection):
    add_destination(connection)
    connection.execute(
        """create table orders (id integer, total numeric);
        create function orders_outbox() returns trigger language plpgsql as $$
        begin
            perform outbox.record_event('order.placed', to_jsonb(new), key => new.id::text);
            return new;
        end $$;
        create trigger orders_outbox after insert on orders for each row execute function orders_outbox()"""
    )
    with connection.cursor() as cursor, cursor.copy("copy orders from stdin") as copy:
        for number in range(3):
            copy.write_row([number, Decimal("1.10")])
    assert [(row[1], row[2]) for row in events(connection)] == [
        (f'{{"id": {number}, "total": 1.10}}', str(number)) for number in range(3)
    ]
    assert len(open_deliveries(connection)) == 3


@pytest.mark.parametrize(
    "setting", ["standard_conforming_strings = off", "datestyle = 'SQL, DMY'", "timezone = 'Asia/Kolkata'"]
)
def test_settings_of_the_caller_change_no_rule(connection, setting):
    connection.execute(f"set {setting}")
    assert refusal(connection, "select outbox.record_event('axb c')")[0] == "OB002"
    assert refusal(connection, "select outbox.record_event('a', headers => '{\"x-a\": \" \"}')")[0] == "OB005"
    connection.execute("select outbox.record_event('a.b', idempotency_key => 'k', due_at => '2126-12-01 10:00:00+00')")
    connection.execute("select outbox.record_event('a.b', idempotency_key => 'k', due_at => '2126-12-01 10:00:00+00')")
    assert len(events(connection)) == 1


MAIL = """{
    "to": ["Ada <ada@example.com>", {"address": "bob@example.com", "name": "Bob"}],
    "cc": "ADA@example.com", "bcc": ["eve@example.com"], "subject": "hello"
}"""


def recipients(connection):
    return [row[0] for row in connection.execute("select recipient from outbox.deliveries order by id").fetchall()]


def test_a_mail_is_one_delivery_for_each_address(connection):
    add_destination(connection, "hooks", sink="webhook")
    add_destination(connection, "mail", sink="email")
    everybody = ["Ada <ada@example.com>", '{"name": "Bob", "address": "bob@example.com"}', "eve@example.com"]
    connection.execute("select outbox.record_event('order.paid', %s)", [MAIL])
    assert recipients(connection) == [None, *everybody]
    batch = f'[{{"type": "order.paid", "payload": {MAIL}, "destination": "mail"}}, {{"type": "order.paid"}}]'
    connection.execute("select outbox.record_events(%s)", [batch])
    assert recipients(connection) == [None, *everybody, *everybody, None, None]


@pytest.mark.parametrize("payload", ["{}", "[]", "1", '{"to": []}', '{"to": null}', '{"to": 5}'])
def test_what_is_no_mail_is_one_delivery_for_the_sink_to_refuse(connection, payload):
    add_destination(connection, "mail", sink="email")
    connection.execute("select outbox.record_event('order.paid', %s)", [payload])
    assert recipients(connection) == [None]


def test_a_mail_to_more_than_a_thousand_is_one_delivery_for_the_sink_to_refuse(connection):
    add_destination(connection, "mail", sink="email")
    for number in (1000, 1001):
        payload = json.dumps({"to": [f"a{n}@example.com" for n in range(number)]})
        connection.execute("select outbox.record_event('order.paid', %s)", [payload])
    assert len(recipients(connection)) == 1001
