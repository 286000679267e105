-- Creates the views for readers, and outbox.grant_roles(), which gives each role of deploy/roles.sql that exists its rights.
-- Locks: none that an application could wait for. Deploy before the code. Breaking: no, first release.
--
-- Run outbox.grant_roles() again after creating the roles later; `outbox migrate` runs it at its end.

create view outbox.recorded_events as
    select e.id, e.type, e.key, e.recorded_at, array(select jsonb_object_keys(e.headers)) as header_names
    from outbox.events e;
comment on view outbox.recorded_events is 'Events without payload and without the values of their headers.';

create view outbox.open_deliveries as
    select d.id, d.event_id, d.destination_id, t.name as destination, d.key, d.due_at, d.attempt, d.interruptions,
           d.leased_until, d.relay_id, d.recorded_at
    from outbox.deliveries d
    join outbox.destinations t on t.id = d.destination_id;
comment on view outbox.open_deliveries is 'Open deliveries with the name of their destination, without lease tokens.';

create view outbox.history as
    select a.delivery_id, a.event_id, a.destination_id, t.name as destination, a.attempt, a.started_at, a.duration_ms,
           a.outcome, a.reason, a.certainty, a.status, a.relay_id
    from outbox.attempts a
    join outbox.destinations t on t.id = a.destination_id;
comment on view outbox.history is 'Attempts with the name of their destination, without the detail: a receiver may answer with what it was sent.';

create view outbox.dead as
    select l.delivery_id, l.event_id, l.destination_id, t.name as destination, l.key, l.attempt, l.interruptions,
           l.reason, l.recorded_at, l.died_at
    from outbox.dead_letters l
    join outbox.destinations t on t.id = l.destination_id;
comment on view outbox.dead is 'Dead letters with the name of their destination, without the detail.';

create view outbox.destination_states as
    select t.id, t.name, t.sink, t.event_types, t.policy, t.state, t.state_reason, t.state_changed_at, t.held_until,
           t.version, t.created_at, t.removed_at
    from outbox.destinations t;
comment on view outbox.destination_states is 'Destinations without their settings, which may hold secrets.';

create function outbox.grant_roles() returns text[]
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    granted text[] := array[]::text[];
    role_name text;
    view_name text;
begin
    -- A function is executable by everybody when it is created. Migrations may forget to say otherwise, this does not.
    revoke execute on all functions in schema outbox from public;

    -- Handlers of a relay may record events, too.
    for role_name in select rolname from pg_roles where rolname in ('outbox_writer', 'outbox_relay') loop
        execute format('grant usage on schema outbox to %I', role_name);
        execute format(
            'grant execute on function'
            ' outbox.record_event(text, jsonb, text, text, jsonb, timestamptz, text),'
            ' outbox.record_event(text, text, text, text, text, timestamptz, text),'
            ' outbox.record_event(text, json, text, text, jsonb, timestamptz, text),'
            ' outbox.record_events(jsonb), outbox.record_events(text),'
            -- These only compute: the forms that take text or json run them as the caller.
            ' outbox.storable_json(text, text), outbox.nul_path(text), outbox.refuse(text)'
            ' to %I', role_name);
        granted := granted || role_name;
    end loop;

    if exists (select from pg_roles where rolname = 'outbox_relay') then
        grant select on all tables in schema outbox to outbox_relay;
        grant insert, update, delete on outbox.deliveries, outbox.dead_letters to outbox_relay;
        grant insert on outbox.attempts, outbox.outcome_counts to outbox_relay;
        grant insert, update on outbox.relays to outbox_relay;
        grant update (state, state_reason, held_until) on outbox.destinations to outbox_relay;
        grant update (janitor_relay_id, janitor_until) on outbox.meta to outbox_relay;
        grant usage, select on all sequences in schema outbox to outbox_relay;
        grant execute on function
            outbox.key_slot(text), outbox.uuid_floor(timestamptz), outbox.uuid_moment(uuid), outbox.list_partitions(),
            outbox.create_partitions(integer), outbox.cover_now(text), outbox.constrain_default(text), outbox.validate_default(text),
            outbox.release_default(text), outbox.adopt_default(text), outbox.purge_partition(text, interval),
            outbox.fold_partitions(text, interval), outbox.purge_default(text, interval, integer),
            outbox.expire_idempotency_keys(integer), outbox.compact_outcome_counts(interval),
            outbox.forget_relays(interval)
            to outbox_relay;
    end if;

    if exists (select from pg_roles where rolname = 'outbox_reader') then
        grant usage on schema outbox to outbox_reader;
        for view_name in
            select c.relname from pg_class c where c.relnamespace = 'outbox'::regnamespace and c.relkind = 'v'
        loop
            execute format('grant select on outbox.%I to outbox_reader', view_name);
        end loop;
        grant select on outbox.relays, outbox.outcome_counts, outbox.meta, outbox.migrations to outbox_reader;
        -- What views compute, they compute as their reader.
        grant execute on function outbox.list_partitions(), outbox.uuid_moment(uuid), outbox.uuid_floor(timestamptz),
            outbox.key_slot(text) to outbox_reader;
        granted := granted || 'outbox_reader'::text;
    end if;

    return granted;
end
$$;
comment on function outbox.grant_roles() is 'Gives outbox_writer, outbox_relay and outbox_reader their rights, as far as these roles exist, and returns them.';

select outbox.grant_roles();
