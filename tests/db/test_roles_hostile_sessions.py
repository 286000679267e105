"""Hostile sessions: no schema, operator, temporary table or cast of an ordinary role runs with the owner's rights."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

from outbox.migrate import migrate
from outbox.prune import prune
from tests.queues import add_destination, count


@pytest.fixture
def admin(admin_of_roles):
    return admin_of_roles


SHADOWS = """
create schema mallory;
create table mallory.seen (who text, what text);
grant insert on mallory.seen to public;
create function mallory.caught(what text) returns void language plpgsql as
    $$ begin insert into mallory.seen values (current_user, what); end $$;
create function mallory.clock_timestamp() returns timestamptz language plpgsql as
    $$ begin perform mallory.caught('clock_timestamp'); return '2000-01-01'; end $$;
create function mallory.current_setting(text, boolean) returns text language plpgsql as
    $$ begin perform mallory.caught('current_setting'); return '1'; end $$;
create function mallory.octet_length(text) returns integer language plpgsql as
    $$ begin perform mallory.caught('octet_length'); return 0; end $$;
create function mallory.jsonb_typeof(jsonb) returns text language plpgsql as
    $$ begin perform mallory.caught('jsonb_typeof'); return 'object'; end $$;
create function mallory.pg_notify(text, text) returns void language plpgsql as
    $$ begin perform mallory.caught('pg_notify'); end $$;
create function mallory.jsonb_array_elements(jsonb) returns setof jsonb language plpgsql as
    $$ begin perform mallory.caught('jsonb_array_elements'); end $$;
create function mallory.pg_advisory_xact_lock_shared(integer, integer) returns void language plpgsql as
    $$ begin perform mallory.caught('pg_advisory_xact_lock_shared'); end $$;
create function mallory.texts(text, text) returns boolean language plpgsql as
    $$ begin perform mallory.caught('text operator'); return true; end $$;
create function mallory.jsons(jsonb, jsonb) returns boolean language plpgsql as
    $$ begin perform mallory.caught('jsonb operator'); return true; end $$;
create function mallory.arrays(text[], text[]) returns boolean language plpgsql as
    $$ begin perform mallory.caught('array operator'); return true; end $$;
create operator mallory.= (function = mallory.texts, leftarg = text, rightarg = text);
create operator mallory.<> (function = mallory.texts, leftarg = text, rightarg = text);
create operator mallory.!~ (function = mallory.texts, leftarg = text, rightarg = text);
create operator mallory.~ (function = mallory.texts, leftarg = text, rightarg = text);
create operator mallory.= (function = mallory.jsons, leftarg = jsonb, rightarg = jsonb);
create operator mallory.<> (function = mallory.jsons, leftarg = jsonb, rightarg = jsonb);
create operator mallory.&& (function = mallory.arrays, leftarg = text[], rightarg = text[]);
grant usage on schema mallory to public;
"""
RECORD_EVERYTHING = """
select outbox.record_event('order.paid', '{"a": 1}', 'k', 'i', '{"x-a": "b"}', now(), 'shop');
select outbox.record_event('order.paid', '{"a": 1}'::jsonb, 'k', 'i', '{"x-a": "b"}'::jsonb, now(), 'shop');
select outbox.record_event('order.paid', '{"a": 1}'::json);
select outbox.record_event('order.paid', '{"a": 1}', headers => '{"x-a": "b"}'::jsonb);
select outbox.record_event('order.paid', headers => '{"x-a": "b"}');
select outbox.record_events('[{"type": "order.paid", "key": "k", "idempotency_key": "j"}]'::jsonb);
select outbox.record_events('[{"type": "order.paid", "due_at": "2126-12-01T00:00:00Z"}]'::text);
select outbox.record_events('[{"type": "order.paid"}]'::json);
"""


@pytest.mark.parametrize("when", ["before the migration", "after it"])
def test_shadowing_functions_and_operators_are_never_called(server, empty_database, root, login_to, when):
    with empty_database.connect() as admin:
        if when == "before the migration":
            admin.execute(SHADOWS)
            admin.execute("set search_path = mallory, pg_catalog")
        migrate(admin)
        admin.execute("reset search_path")
        if when == "after it":
            admin.execute(SHADOWS)
        admin.execute((root / "deploy" / "roles.sql").read_bytes())
        add_destination(admin)
        app = login_to(empty_database, admin, "outbox_writer")
        app.execute("set search_path = mallory, pg_catalog")
        app.execute(RECORD_EVERYTHING)
        assert admin.execute("select distinct what from mallory.seen where who <> session_user").fetchall() == []
        assert admin.execute("select distinct what from mallory.seen").fetchall() == []
        assert count(admin, "deliveries") == 7


def test_temporary_objects_never_stand_in_for_the_tables(admin, login):
    app = login("outbox_writer")
    app.execute(
        "create temp table outbox_shape (id uuid, type text, payload jsonb, headers jsonb, key text,"
        " due_at timestamptz, recorded_at timestamptz, event_id uuid, destination_id integer, name text,"
        " event_types text[], removed_at timestamptz, fingerprint bytea, expires_at timestamptz)"
    )
    app.execute(
        "create temp table events (like outbox_shape);"
        "create temp table deliveries (like outbox_shape);"
        "create temp table destinations (like outbox_shape);"
        "create temp table idempotency_keys (like outbox_shape);"
        "create temp table pg_class (relname text); create temp table pg_proc (proname text);"
        "create domain pg_temp.text as integer; create domain pg_temp.uuid as integer;"
        "create domain pg_temp.jsonb as integer;"
        "set search_path = pg_temp, pg_catalog"
    )
    app.execute(RECORD_EVERYTHING.replace("::jsonb", "::pg_catalog.jsonb").replace("::text", "::pg_catalog.text"))
    assert count(admin, "deliveries") == 7
    for name in ("events", "deliveries", "destinations", "idempotency_keys"):
        rows = app.execute(sql.SQL("select from pg_temp.{}").format(sql.Identifier(name)))
        assert rows.rowcount == 0


def test_temporary_objects_never_stand_in_for_what_upkeep_works_on(admin, login):
    relay = login("outbox_relay")
    relay.execute("create temp table partitions (name text); create temp table pg_class (relname text)")
    relay.execute("set search_path = pg_temp")
    assert prune(relay, timedelta(days=30)).created == 0
    relay.execute("create temp table outbox_spared (mine integer)")
    assert prune(relay, timedelta(days=30)).created == 0


def test_the_payload_limit_has_an_upper_end_that_no_setting_lifts(admin, login):
    app = login("outbox_writer")
    app.execute("set outbox.max_payload_bytes = '99999999'")
    with pytest.raises(psycopg.Error, match="more than the limit of 16777216"):
        app.execute("select outbox.record_event('a', to_jsonb(repeat('x', 16777216)))")


def test_a_cast_to_json_of_an_ordinary_role_never_runs_as_the_owner(admin, login):
    owner = login()
    (name,) = owner.execute("select current_user").fetchone()
    admin.execute(sql.SQL("create schema shop authorization {}").format(sql.Identifier(name)))
    owner.execute(
        "create type shop.evil as (x integer);"
        "create table shop.seen (who text); grant insert on shop.seen to public; grant usage on schema shop to public;"
        "create function shop.to_json(shop.evil) returns json language plpgsql as"
        " $$ begin insert into shop.seen values (current_user); return '1'::json; end $$;"
        "create table shop.orders (id integer, note shop.evil)"
    )
    admin.execute("select outbox.capture('shop.orders', key => 'id')")
    owner.execute("insert into shop.orders values (1, row(1))")
    owner.execute("create cast (shop.evil as json) with function shop.to_json(shop.evil)")
    owner.execute("insert into shop.orders values (2, row(1))")
    assert admin.execute("select who from shop.seen").fetchall() == []
    payloads = [row[0] for row in admin.execute("select payload from outbox.events order by id").fetchall()]
    assert payloads[0]["row"] == {"id": 1, "note": {"x": 1}}
    assert payloads[1]["row"] is None
    assert "cast to json" in payloads[1]["omitted"]


def test_names_that_need_quoting_are_quoted(admin):
    admin.execute(
        """create schema "a""b; drop table x"; create table "a""b; drop table x"."C'd" ("e""f" integer, "g,h" text)"""
    )
    admin.execute(
        "select outbox.capture(%s, type => 'c.{op}', key => 'e\"f', columns => array['e\"f', 'g,h'])",
        ["""\"a""b; drop table x"."C'd\""""],
    )
    admin.execute("""insert into "a""b; drop table x"."C'd" values (1, 'x')""")
    ((key, payload),) = admin.execute("select key, payload from outbox.events").fetchall()
    assert (key, payload["row"]) == ("1", {'e"f': 1, "g,h": "x"})
