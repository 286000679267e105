-- Creates what producers call: outbox.record_event.
-- Locks: none that an application could wait for. Deploy before the code. Breaking: no, first release.

create function outbox.new_event_id() returns uuid
    language sql volatile parallel safe
    set search_path = pg_catalog, pg_temp
as $$
    select encode(set_bit(set_bit(
        overlay(uuid_send(gen_random_uuid()) placing
            substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
        52, 1), 53, 1), 'hex')::uuid
$$;

create function outbox.record_event(
    type text, payload jsonb default '{}', key text default null, idempotency_key text default null,
    headers jsonb default '{}', due_at timestamptz default null, destination text default null) returns uuid
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    event_id uuid;
    parts text[] := string_to_array(type, '.');
    patterns text[] := array['*', type];
begin
    if key is not null then
        perform pg_advisory_xact_lock_shared(1330205761, outbox.key_slot(key));
    end if;
    event_id := outbox.new_event_id();
    for n in 1 .. cardinality(parts) - 1 loop
        patterns := patterns || (array_to_string(parts[1:n], '.') || '.*');
    end loop;
    insert into outbox.events (id, type, payload, headers, key, recorded_at)
        values (event_id, type, payload, headers, key, clock_timestamp());
    insert into outbox.deliveries (event_id, destination_id, key, due_at, recorded_at)
        select event_id, d.id, key, greatest(due_at, clock_timestamp()), clock_timestamp()
        from outbox.destinations d
        where d.removed_at is null
          and case when destination is null then d.event_types && patterns else d.name = destination end;
    if pg_try_advisory_lock(1330205760, 0) then
        perform pg_advisory_unlock(1330205760, 0);
    else
        perform pg_notify('outbox', '');
    end if;
    return event_id;
end
$$;
