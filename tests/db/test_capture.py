"""outbox.capture: an event for each row written by an application whose code cannot be changed."""

from __future__ import annotations

import psycopg
import pytest

from tests.queues import count


@pytest.fixture
def admin(admin_of_roles):
    admin_of_roles.execute(
        "create schema shop;"
        "create table shop.orders (id integer primary key, total numeric(10, 2), note text, made_at timestamptz)"
    )
    return admin_of_roles


def captured(admin):
    return admin.execute("select type, key, payload from outbox.events order by id").fetchall()


def test_each_row_written_is_an_event(admin):
    admin.execute("select outbox.capture('shop.orders', type => 'order.{op}', key => 'id')")
    admin.execute("insert into shop.orders values (1, 1.10, 'a'), (2, 2.20, 'b')")
    admin.execute("update shop.orders set total = 3.30 where id = 2")
    admin.execute("delete from shop.orders where id = 1")
    events = captured(admin)
    assert [event[:2] for event in events] == [
        ("order.inserted", "1"),
        ("order.inserted", "2"),
        ("order.updated", "2"),
        ("order.deleted", "1"),
    ]
    row = {"id": 1, "total": 1.1, "note": "a", "made_at": None}
    assert events[0][2] == {"op": "inserted", "table": "shop.orders", "row": row}
    assert events[2][2]["before"] == {"total": 2.2}
    assert events[3][2] == {"op": "deleted", "table": "shop.orders", "row": row}
    assert count(admin, "deliveries") == 4


def test_t11_numbers_of_a_row_keep_their_digits(admin):
    admin.execute("select outbox.capture('shop.orders')")
    admin.execute("insert into shop.orders values (1, 1.10)")
    assert admin.execute("select payload #>> '{row,total}' from outbox.events").fetchone() == ("1.10",)


def test_columns_limit_the_payload_and_which_updates_count(admin):
    admin.execute("select outbox.capture('shop.orders', 'order.{op}', 'id', columns => array['id', 'total'])")
    admin.execute("insert into shop.orders values (1, 1.10, 'secret')")
    admin.execute("update shop.orders set note = 'other secret'")
    admin.execute("update shop.orders set total = total")
    admin.execute("update shop.orders set total = 2, note = 'x'")
    assert [(type_, payload["row"]) for type_, _, payload in captured(admin)] == [
        ("order.inserted", {"id": 1, "total": 1.1}),
        ("order.updated", {"id": 1, "total": 2.0}),
    ]


def test_the_type_defaults_to_the_name_of_the_table_and_the_key_to_none(admin):
    admin.execute("select outbox.capture('shop.orders')")
    admin.execute("insert into shop.orders values (1)")
    assert [event[:2] for event in captured(admin)] == [("orders.inserted", None)]


def test_a_type_without_the_placeholder_is_the_type_of_all(admin):
    admin.execute("select outbox.capture('shop.orders', type => 'order.changed')")
    admin.execute("insert into shop.orders values (1); delete from shop.orders")
    assert [event[0] for event in captured(admin)] == ["order.changed", "order.changed"]


def test_rolled_back_rows_are_no_events(admin):
    admin.execute("select outbox.capture('shop.orders')")
    with admin.transaction() as transaction:
        admin.execute("insert into shop.orders values (1)")
        raise psycopg.Rollback(transaction)
    assert captured(admin) == []


def test_copied_and_cascaded_rows_are_captured(admin):
    admin.execute("create table shop.lines (id integer, order_id integer references shop.orders on delete cascade)")
    admin.execute("select outbox.capture('shop.orders', key => 'id'), outbox.capture('shop.lines', key => 'order_id')")
    with admin.cursor() as cursor, cursor.copy("copy shop.orders (id) from stdin") as copy:
        for number in range(3):
            copy.write_row([number])
    admin.execute("insert into shop.lines values (1, 2)")
    admin.execute("delete from shop.orders where id = 2")
    assert [event[:2] for event in captured(admin)] == [
        ("orders.inserted", "0"),
        ("orders.inserted", "1"),
        ("orders.inserted", "2"),
        ("lines.inserted", "2"),
        ("orders.deleted", "2"),
        ("lines.deleted", "2"),
    ]


def test_a_partitioned_table_is_captured_under_its_own_name(admin):
    admin.execute(
        "create table shop.sales (id integer, day date) partition by range (id);"
        "create table shop.sales_low partition of shop.sales for values from (0) to (10)"
    )
    for _ in range(2):
        admin.execute("select outbox.capture('shop.sales', key => 'id')")
    admin.execute("insert into shop.sales values (1, '2026-12-01')")
    admin.execute("insert into shop.sales_low values (2, '2026-12-01')")
    assert [(key, payload["table"]) for _, key, payload in captured(admin)] == [
        ("1", "shop.sales"),
        ("2", "shop.sales"),
    ]


def test_capturing_again_replaces_the_settings(admin):
    admin.execute("select outbox.capture('shop.orders', type => 'old.{op}')")
    admin.execute("select outbox.capture('shop.orders', type => 'new.{op}')")
    admin.execute("insert into shop.orders values (1)")
    assert [event[0] for event in captured(admin)] == ["new.inserted"]


def test_a_released_table_is_captured_no_more(admin):
    admin.execute("select outbox.capture('shop.orders')")
    assert admin.execute("select outbox.release_capture('shop.orders')").fetchone() == (True,)
    assert admin.execute("select outbox.release_capture('shop.orders')").fetchone() == (False,)
    admin.execute("insert into shop.orders values (1)")
    assert captured(admin) == []


def test_a_row_too_large_is_recorded_as_far_as_possible_and_fails_nobody(admin):
    admin.execute("select outbox.capture('shop.orders', key => 'id')")
    admin.execute("insert into shop.orders values (7, 1, repeat('x', 300000))")
    ((_, key, payload),) = captured(admin)
    assert key == "7"
    assert payload["row"] is None
    assert payload["omitted"] == "the row is larger than outbox.max_payload_bytes"
    assert payload["key"] == "7"


@pytest.mark.parametrize(("value", "key"), [(None, None), ("", None), ("x" * 300, "hash")])
def test_a_key_no_event_can_have_fails_nobody(admin, value, key):
    admin.execute("select outbox.capture('shop.orders', key => 'note')")
    admin.execute("insert into shop.orders (id, note) values (1, %s)", [value])
    ((_, found, _),) = captured(admin)
    assert found == key or (key == "hash" and len(found) == 64)


def test_the_writer_needs_no_right_in_the_schema(admin, login):
    admin.execute("select outbox.capture('shop.orders')")
    admin.execute("grant usage on schema shop to public; grant insert on shop.orders to public")
    login().execute("insert into shop.orders values (1)")
    assert len(captured(admin)) == 1


def test_only_those_with_the_trigger_right_can_capture(admin, login):
    admin.execute("grant usage on schema outbox to public; grant execute on all functions in schema outbox to public")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        login().execute("select outbox.capture('shop.orders')")


def test_what_is_written_does_not_depend_on_the_writers_settings(admin):
    admin.execute("alter table shop.orders add column took interval, add column raw bytea, add column rate float8")
    admin.execute("select outbox.capture('shop.orders')")
    foreign = "timezone = 'Asia/Kolkata'; set intervalstyle = 'postgres_verbose'; set bytea_output = 'escape'"
    for number, settings in enumerate(
        ["timezone = 'UTC'", foreign, "extra_float_digits = -10; set datestyle = 'SQL, DMY'"]
    ):
        admin.execute(f"set {settings}")
        admin.execute(
            "insert into shop.orders (id, made_at, took, raw, rate)"
            " values (%s, '2026-12-01 10:00:00+03', interval '1 day 02:00', decode('00ff', 'hex'), 0.1)",
            [number],
        )
    one, *others = (payload["row"] | {"id": 0} for _, _, payload in captured(admin))
    assert others == [one, one]
    assert one["made_at"] == "2026-12-01T07:00:00+00:00"


@pytest.mark.parametrize(
    ("arguments", "sqlstate", "message"),
    [
        ("'shop.orders', type => 'order {op}'", "OB002", 'type: "order inserted" is not dotted words'),
        ("'shop.orders', key => 'nope'", "OB009", 'columns: shop.orders has no column "nope"'),
        ("'shop.orders', columns => array['id', 'nope']", "OB009", 'columns: shop.orders has no column "nope"'),
        ("'shop.orders', columns => '{}'", "OB009", "columns: none were given"),
        ("'shop.nope'", "42P01", "does not exist"),
        ("null", "OB009", "captured: SQL null"),
    ],
)
def test_wrong_arguments_are_refused(admin, arguments, sqlstate, message):
    with pytest.raises(psycopg.Error) as refused:
        admin.execute(f"select outbox.capture({arguments})")
    assert refused.value.diag.sqlstate == sqlstate
    assert message in refused.value.diag.message_primary
