-- Adds the calls of outbox.record_event and outbox.record_events that PostgreSQL could not decide between, or not find: text
-- beside jsonb headers, headers as text without a payload, and a batch as json.
-- Locks: none that an application could wait for. Deploy before the code. Breaking: no.

create domain outbox.json_text as text;
comment on domain outbox.json_text is
    'JSON as text, in the forms of record_event that must lose to those with plain text where a call fits both.';

-- Why a domain: with text, a call without headers would fit this form and the one with text headers alike, and be refused as
-- ambiguous. PostgreSQL prefers text to a domain over it, so this one is found only where headers are jsonb.
create function outbox.record_event(
    type text, payload outbox.json_text, key text default null, idempotency_key text default null,
    headers jsonb default '{}', due_at timestamptz default null, destination text default null) returns uuid
    language sql volatile
    return outbox.record_event(
        type, outbox.storable_json('payload', payload), key, idempotency_key, headers, due_at, destination);
comment on function outbox.record_event(text, outbox.json_text, text, text, jsonb, timestamptz, text) is
    'record_event for JSON text beside headers that are jsonb already.';

-- Called by name only: without it, a literal for headers is jsonb where there is no payload, and a NUL in it a bare 22P05. The
-- order of the arguments is such that a call by position fits a form with a payload better.
create function outbox.record_event(
    type text, headers outbox.json_text, key text default null, idempotency_key text default null,
    destination text default null, due_at timestamptz default null) returns uuid
    language sql volatile
    return outbox.record_event(
        type, jsonb '{}', key, idempotency_key, outbox.storable_json('headers', headers), due_at, destination);
comment on function outbox.record_event(text, outbox.json_text, text, text, text, timestamptz) is
    'record_event for headers as text and no payload: a NUL is refused with its path.';

create function outbox.record_events(events json) returns setof uuid
    language sql volatile
begin atomic
    select * from outbox.record_events(outbox.storable_json('events', events::text));
end;
comment on function outbox.record_events(json) is 'record_events for json, as json_agg returns it.';

-- As before, but whoever may record may do so in every form.
create or replace function outbox.grant_roles() returns text[]
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    granted text[] := array[]::text[];
    role_name text;
    view_name text;
    signature regprocedure;
begin
    -- A function is executable by everybody when it is created. Migrations may forget to say otherwise, this does not.
    revoke execute on all functions in schema outbox from public;

    -- Handlers of a relay may record events, too.
    for role_name in select rolname from pg_roles where rolname in ('outbox_writer', 'outbox_relay') loop
        execute format('grant usage on schema outbox to %I', role_name);
        for signature in
            select p.oid::regprocedure from pg_proc p
            where p.pronamespace = 'outbox'::regnamespace
              and p.proname in (
                  'record_event', 'record_events',
                  -- These only compute: the forms that take text or json run them as the caller.
                  'storable_json', 'nul_path', 'refuse')
        loop
            execute format('grant execute on function %s to %I', signature, role_name);
        end loop;
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

select outbox.grant_roles();
