"""Roles: each can do what it is for and nothing else, whatever it puts into its session (field case X02)."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

import outbox
from outbox import Event
from outbox.migrate import migrate
from outbox.prune import prune
from tests.queues import count

DENIED = psycopg.errors.InsufficientPrivilege
RECORDING = {
    "record_event(text,jsonb,text,text,jsonb,timestamp with time zone,text)",
    "record_event(text,text,text,text,text,timestamp with time zone,text)",
    "record_event(text,json,text,text,jsonb,timestamp with time zone,text)",
    "record_event(text,json_text,text,text,jsonb,timestamp with time zone,text)",
    "record_event(text,json_text,text,text,text,timestamp with time zone)",
    "record_events(jsonb)",
    "record_events(json)",
    "record_events(text)",
    "storable_json(text,text)",
    "nul_path(text)",
    "refuse(text)",
}
UPKEEP = {
    "create_partitions(integer)",
    "cover_now(text)",
    "constrain_default(text)",
    "validate_default(text)",
    "release_default(text)",
    "adopt_default(text)",
    "purge_partition(text,interval)",
    "fold_partitions(text,interval)",
    "purge_default(text,interval,integer)",
    "expire_idempotency_keys(integer)",
    "compact_outcome_counts(interval)",
    "forget_relays(interval)",
}
READING = {"key_slot(text)", "list_partitions()", "uuid_floor(timestamp with time zone)", "uuid_moment(uuid)"}


@pytest.fixture
def admin(admin_of_roles):
    return admin_of_roles


def executable(connection):
    """Return the functions of the schema this role may execute."""
    rows = connection.execute(
        "select replace(p.oid::regprocedure::text, 'outbox.', '') from pg_proc p"
        " where p.pronamespace = (select oid from pg_namespace where nspname = 'outbox')"
        " and has_function_privilege(p.oid, 'execute')"
    )
    return {row[0] for row in rows.fetchall()}


def rights(connection, kinds="rpvS"):
    """Return {relation: {rights}} of this role in the schema, those on single columns as `update(column)`."""
    rows = connection.execute(
        """
        select c.relname, lower(p.privilege)
        from pg_class c
        join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'outbox'
        cross join unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER']) p (privilege)
        where strpos(%(kinds)s, c.relkind::text) > 0
          and case when c.relkind = 'S' then p.privilege = 'UPDATE' and has_sequence_privilege(c.oid, 'USAGE')
                   else has_table_privilege(c.oid, p.privilege) end
        union all
        select c.relname, 'update(' || a.attname || ')'
        from pg_class c
        join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'outbox'
        join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
        where c.relkind in ('r', 'p', 'v')
          and has_column_privilege(c.oid, a.attnum, 'UPDATE') and not has_table_privilege(c.oid, 'UPDATE')
        """,
        {"kinds": kinds},
    )
    found: dict[str, set[str]] = {}
    for relation, right in rows.fetchall():
        found.setdefault(relation, set()).add(right)
    return found


def relations(admin, kinds):
    rows = admin.execute(
        "select relname from pg_class where relnamespace = 'outbox'::regnamespace and strpos(%s, relkind::text) > 0",
        [kinds],
    )
    return {row[0] for row in rows.fetchall()}


def test_x02_a_writer_records_and_has_no_other_right(admin, login):
    app = login("outbox_writer")
    with app.transaction():
        outbox.record_event(app, "order.paid", {"a": 1}, key="k", idempotency_key="i", headers={"x-a": "b"})
        outbox.record_events(app, [Event("order.paid", idempotency_key="j")])
        app.execute(
            """select outbox.record_event('order.paid', '{"a": 1}'), outbox.record_event('order.paid', '1'::json)"""
        )
        app.execute("""select outbox.record_events('[{"type": "order.paid"}]')""")
    assert count(admin, "deliveries") == 5
    assert rights(app) == {}
    assert executable(app) == RECORDING


@pytest.mark.parametrize(
    "attack",
    [
        "select * from outbox.events",
        "select payload from outbox.events_default",
        "select * from outbox.recorded_events",
        "select * from outbox.destinations",
        "insert into outbox.attempts (outcome) values ('delivered')",
        "insert into outbox.events (id, type, payload, recorded_at) values (gen_random_uuid(), 'forged', '{}', now())",
        "insert into outbox.deliveries (event_id, destination_id) values (gen_random_uuid(), 1)",
        "update outbox.deliveries set attempt = 0, lease_token = 1, leased_until = now(), relay_id = 1",
        "update outbox.destinations set state = 'disabled'",
        "delete from outbox.deliveries",
        "delete from outbox.dead_letters",
        "truncate outbox.events",
        "begin; lock table outbox.deliveries in access exclusive mode",
        "select nextval('outbox.deliveries_id_seq')",
        "select setval('outbox.lease_token_seq', 1)",
        "select outbox.purge_partition('events_default', interval '1 day')",
        "select outbox.take_idempotency_key('k', gen_random_uuid(), 'a', '{}', null, '{}', null)",
        "select outbox.grant_roles()",
        "select outbox.capture('pg_class'::regclass)",
        "select outbox.relay_sleeps()",
        "create table outbox.mine ()",
        "create function outbox.record_event(text) returns uuid language sql return null::uuid",
        "create or replace function outbox.refuse(fault text) returns void language sql return null",
        "alter function outbox.record_events(jsonb) security invoker",
        "create trigger mine before insert on outbox.events for each row execute function outbox.capture_row()",
        "drop schema outbox cascade",
        "create policy mine on outbox.events using (true)",
        "comment on table outbox.events is 'mine'",
        "copy outbox.events to stdout",
    ],
)
def test_x02_a_writer_that_tries_more_is_denied(admin, login, attack):
    outbox.record_event(admin, "order.paid", {"card": "SECRET"}, allow_autocommit=True)
    with pytest.raises(DENIED):
        login("outbox_writer").execute(attack)


def test_x02_a_role_without_grants_is_told_the_remedy(admin, login):
    stranger = login()
    role = stranger.info.user
    with pytest.raises(DENIED) as denied:
        outbox.record_event(stranger, "order.paid", allow_autocommit=True)
    assert denied.value.__notes__ == [f"role {role} may not record events; run: GRANT outbox_writer TO {role}"]
    assert count(admin, "events") == 0


def test_x02_forced_row_security_on_the_business_table_changes_nothing(admin, login):
    app = login("outbox_writer")
    admin.execute(
        "create table orders (id integer, tenant text default current_user);"
        "alter table orders enable row level security; alter table orders force row level security;"
        "create policy own on orders using (tenant = current_user);"
        "grant select, insert on orders to public"
    )
    with app.transaction():
        app.execute("insert into orders values (1)")
        outbox.record_event(app, "order.paid")
    assert count(admin, "deliveries") == 1


def test_x02_a_reader_sees_views_and_no_table_with_payload_or_secrets(admin, login):
    outbox.record_event(
        admin, "order.paid", {"card": "SECRET-PAYLOAD"}, headers={"x-a": "SECRET"}, allow_autocommit=True
    )
    reader = login("outbox_reader")
    views = relations(admin, "v")
    assert rights(reader) == {name: {"select"} for name in views | {"relays", "outcome_counts", "meta", "migrations"}}
    for view in sorted(views):
        shown = reader.execute(sql.SQL("select v::text from outbox.{} v").format(sql.Identifier(view))).fetchall()
        assert "SECRET" not in str(shown)
    assert executable(reader) >= READING
    assert not executable(reader) & (RECORDING | UPKEEP)


@pytest.mark.parametrize(
    "attack",
    [
        "select payload from outbox.events",
        "select * from outbox.events",
        "select headers from outbox.events",
        "select settings from outbox.destinations",
        "select detail from outbox.attempts",
        "select lease_token from outbox.deliveries",
        "select fingerprint from outbox.idempotency_keys",
        "select outbox.record_event('forged')",
        "update outbox.recorded_events set type = 'x'",
        "delete from outbox.recorded_events",
        "insert into outbox.relays (name, host, pid, version, concurrency) values ('x', 'x', 1, 'x', 1)",
        "create view mine as select payload from outbox.events; select * from mine",
    ],
)
def test_x02_a_reader_that_tries_more_is_denied(admin, login, attack):
    admin.execute("grant create on schema public to public")
    with pytest.raises(DENIED):
        login("outbox_reader").execute(attack)


def test_no_view_has_a_column_that_readers_must_not_see(admin):
    columns = admin.execute(
        "select c.relname || '.' || a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid"
        " where c.relnamespace = 'outbox'::regnamespace and c.relkind = 'v'"
        " and a.attname in ('payload', 'headers', 'settings', 'detail', 'lease_token', 'fingerprint')"
    ).fetchall()
    assert columns == []


def test_x02_a_relay_works_the_tables_and_no_more(admin, login):
    relay = login("outbox_relay")
    found = rights(relay, "rp")
    writing = {name: found[name] - {"select"} for name in found if found[name] - {"select"}}
    assert writing == {
        "deliveries": {"insert", "update", "delete"},
        "dead_letters": {"insert", "update", "delete"},
        "attempts": {"insert"},
        "outcome_counts": {"insert"},
        "relays": {"insert", "update"},
        "destinations": {"update(state)", "update(state_reason)", "update(held_until)"},
        "meta": {"update(janitor_relay_id)", "update(janitor_until)"},
    }
    assert executable(relay) == RECORDING | UPKEEP | READING
    assert admin.execute("select rolsuper from pg_roles where rolname = 'outbox_relay'").fetchone() == (False,)


@pytest.mark.parametrize(
    "attack",
    [
        "update outbox.events set payload = '{}'",
        "delete from outbox.events",
        "insert into outbox.events (id, type, payload, recorded_at) values (gen_random_uuid(), 'forged', '{}', now())",
        "update outbox.attempts set outcome = 'delivered'",
        "delete from outbox.attempts",
        "truncate outbox.deliveries",
        "update outbox.destinations set settings = '{}'",
        "insert into outbox.destinations (name, sink, event_types) values ('x', 'x', '{}')",
        "delete from outbox.destinations",
        "update outbox.meta set system_identifier = 1",
        "insert into outbox.transitions (destination_id, state, former_state) values (1, 'active', 'disabled')",
        "delete from outbox.transitions",
        "create table outbox.mine ()",
        "alter table outbox.deliveries add column mine text",
        "drop table outbox.events_default",
        "alter table outbox.events detach partition outbox.events_default",
        "create index mine on outbox.deliveries (attempt)",
        "select outbox.attach_partition('events', now(), now() + interval '1 day')",
        "select outbox.capture('outbox.relays')",
        "select outbox.grant_roles()",
    ],
)
def test_x02_a_relay_that_tries_more_is_denied(admin, login, attack):
    with pytest.raises(DENIED):
        login("outbox_relay").execute(attack)


def test_x02_what_a_relay_does_to_a_destination_is_kept_though_it_cannot_write_it(admin, login):
    login("outbox_relay").execute("update outbox.destinations set state = 'tripped', state_reason = 'x'")
    found = login("outbox_reader").execute(
        "select destination, state::text, reason from outbox.destination_transitions"
    )
    assert found.fetchall() == [("shop", "tripped", "x")]


def test_x02_a_relay_does_the_upkeep_without_owning_anything(admin, login):
    for name in relations(admin, "r") - {"events_default", "attempts_default"}:
        if name.startswith(("events_", "attempts_")):
            admin.execute(sql.SQL("drop table outbox.{}").format(sql.Identifier(name)))
    outbox.record_event(admin, "order.paid", allow_autocommit=True)
    done = prune(login("outbox_relay"), timedelta(days=1))
    assert done.adopted == ["events"]
    assert done.created == 15
    assert done.busy == []


def test_x02_a_relay_cannot_remove_what_is_younger_than_a_day(admin, login):
    relay = login("outbox_relay")
    with pytest.raises(psycopg.Error, match="keep: 00:00:01 is not a time from 1 day"):
        relay.execute("select outbox.purge_partition('events_default', interval '1 second')")
    with pytest.raises(psycopg.Error, match="is none, or holds what is to be kept"):
        relay.execute("select outbox.purge_partition('events_default', interval '1 day')")
    with pytest.raises(psycopg.Error, match="is none, or holds what is to be kept"):
        relay.execute("select outbox.purge_partition('deliveries', interval '1 day')")
    with pytest.raises(psycopg.Error):
        relay.execute("select outbox.purge_default('deliveries', interval '1 day')")
    with pytest.raises(psycopg.Error):
        relay.execute("select outbox.adopt_default('x; drop table outbox.events')")


def test_every_function_pins_its_path_or_was_resolved_when_it_was_made(admin):
    unsafe = admin.execute(
        "select p.oid::regprocedure::text from pg_proc p where p.pronamespace = 'outbox'::regnamespace"
        " and p.prosqlbody is null"
        " and not coalesce(p.proconfig, '{}') @> array['search_path=pg_catalog, pg_temp']"
    ).fetchall()
    assert unsafe == []


def test_every_security_definer_function_pins_its_path(admin):
    unsafe = admin.execute(
        "select p.oid::regprocedure::text from pg_proc p where p.pronamespace = 'outbox'::regnamespace"
        " and p.prosecdef and not coalesce(p.proconfig, '{}') @> array['search_path=pg_catalog, pg_temp']"
    ).fetchall()
    assert unsafe == []


def test_no_function_body_has_a_backslash(admin):
    """With standard_conforming_strings off a backslash in the body of a function means something else."""
    unsafe = admin.execute(
        "select p.oid::regprocedure::text from pg_proc p where p.pronamespace = 'outbox'::regnamespace"
        " and p.prolang <> (select oid from pg_language where lanname = 'sql') and strpos(p.prosrc, chr(92)) > 0"
    ).fetchall()
    assert unsafe == []


def test_nothing_in_the_schema_is_open_to_everybody(admin, login):
    stranger = login()
    assert executable(stranger) == set()
    assert rights(stranger) == {}
    assert stranger.execute("select has_schema_privilege('outbox', 'usage')").fetchone() == (False,)


def test_roles_made_after_the_migration_get_their_rights_from_the_next_run(database, admin, login):
    admin.execute("revoke all on all functions in schema outbox from outbox_writer")
    migrate(admin)
    outbox.record_event(login("outbox_writer"), "order.paid", allow_autocommit=True)


def test_roles_sql_runs_again_and_before_the_migration(empty_database, root):
    with empty_database.connect() as admin:
        for _ in range(2):
            admin.execute((root / "deploy" / "roles.sql").read_bytes())
        migrate(admin)
        granted = admin.execute("select outbox.grant_roles()").fetchone()[0]
    assert sorted(granted) == ["outbox_reader", "outbox_relay", "outbox_writer"]
