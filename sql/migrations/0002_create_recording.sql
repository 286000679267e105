-- Creates what producers call: outbox.record_event and outbox.record_events, with the checks they share.
-- Locks: none that an application could wait for, everything here is new. Deploy before the code. Breaking: no.
--
-- Two rules keep these functions safe whoever calls them, with whatever settings (see sql/README.md, Recording):
-- * SECURITY DEFINER functions pin search_path to pg_catalog, pg_temp and qualify everything else;
-- * the others do so, too, or have SQL-standard bodies (return …), whose names are resolved once, here, and which the
--   planner inlines.
-- No function body contains a backslash: with standard_conforming_strings off it would mean something else.
-- What looks into rows is plpgsql: PostgreSQL before 18 plans the body of an SQL function anew in each transaction (300 us
-- for the checks of headers), unless it is one expression, which is inlined.

-- ------------------------------------------------------------------ identity

do $$
begin
    if current_setting('server_version_num')::integer >= 180000 then
        create function outbox.new_event_id(moment timestamptz) returns uuid
            language sql volatile parallel safe
            return uuidv7();
    else
        -- As uuidv7() of PostgreSQL 18: milliseconds, version, fraction of the millisecond in 4096ths, variant, random bits.
        create function outbox.new_event_id(moment timestamptz) returns uuid
            language sql volatile parallel safe
            return encode(overlay(uuid_send(gen_random_uuid()) placing int8send(
                ((date_part('epoch', moment) * 1000000)::bigint / 1000 << 16)
                | 28672
                | ((date_part('epoch', moment) * 1000000)::bigint % 1000 * 4096 / 1000)) from 1 for 8), 'hex')::uuid;
    end if;
end
$$;
comment on function outbox.new_event_id(timestamptz) is
    'A uuid v7, later ones of a transaction sort later. The moment is the clock for servers without uuidv7().';

-- ------------------------------------------------------------------ settings of a session, role or database

create function outbox.max_payload_bytes() returns integer
    language sql stable parallel safe
    return case
        when current_setting('outbox.max_payload_bytes', true) ~ '^[1-9][0-9]{0,7}$'
        then least(current_setting('outbox.max_payload_bytes', true)::integer, 16777216)
        else 262144
    end;
comment on function outbox.max_payload_bytes() is
    'Largest payload as text, in bytes: the setting outbox.max_payload_bytes (at most 16 MiB), else 256 KiB.';

create function outbox.idempotency_period() returns interval
    language sql stable parallel safe
    return case
        when current_setting('outbox.idempotency_hours', true) ~ '^[1-9][0-9]{0,4}$'
        then make_interval(hours => current_setting('outbox.idempotency_hours', true)::integer)
        else make_interval(days => 7)
    end;
comment on function outbox.idempotency_period() is
    'How long an idempotency key is remembered: the setting outbox.idempotency_hours, else 7 days.';

-- ------------------------------------------------------------------ what cannot be recorded

create function outbox.header_fault(headers jsonb) returns text
    language plpgsql immutable parallel safe
    set search_path = pg_catalog, pg_temp
as $$
declare
    header record;
    fault text;
    seen text[] := array[]::text[];
begin
    if jsonb_typeof(headers) <> 'object' then
        return 'OB005 headers: a JSON ' || jsonb_typeof(headers) || ' was given; give an object of strings';
    end if;
    for header in
        select h.key as name, lower(h.key) as lower_name, jsonb_typeof(h.value) as kind, h.value #>> '{}' as value
        from jsonb_each(headers) h
    loop
        fault := case
            when header.name !~ '^[!#$%&''*+.^_`|~0-9A-Za-z-]{1,100}$' then
                'is not a header name; use up to 100 letters, digits and hyphens'
            when header.lower_name in (
                    'host', 'content-length', 'transfer-encoding', 'connection', 'te', 'trailer', 'upgrade', 'keep-alive',
                    'expect', 'content-type', 'content-encoding', 'accept-encoding', 'user-agent', 'idempotency-key')
                or header.lower_name ~ '^(webhook|proxy|ce)-' then
                'is set by the relay and reserved; choose another name'
            when header.lower_name = any (seen) then
                'is given more than once; header names ignore case'
            when header.kind <> 'string' then
                'has a JSON ' || header.kind || ' as value; give a string'
            when length(header.value) > 4096 then
                'has a value longer than 4096 characters; move it into the payload'
            when header.value !~ '^([!-~]([ -~]*[!-~])?)?$' then
                'has a value with other characters than visible ASCII and inner spaces; encode it'
        end;
        if fault is not null then
            return 'OB005 headers: ' || to_json(left(header.name, 100)) || ' ' || fault;
        end if;
        seen := seen || header.lower_name;
    end loop;
    if cardinality(seen) - (headers ? 'traceparent')::integer - (headers ? 'tracestate')::integer > 20 then
        return 'OB005 headers: more than 20 were given; move data into the payload';
    end if;
    return null;
end
$$;
comment on function outbox.header_fault(jsonb) is 'Why these producer headers cannot be recorded: SQLSTATE and message, or null.';

create function outbox.event_fault(
    type text, payload jsonb, key text, idempotency_key text, headers jsonb, due_at timestamptz) returns text
    language sql stable parallel safe
    return case
        when type is null or type !~ '^[A-Za-z0-9_]+([.][A-Za-z0-9_]+)*$' then
            'OB002 type: ' || coalesce(to_json(left(type, 100))::text, 'null')
            || ' is not dotted words; write letters, digits and underscores joined by dots, like order.paid'
        when length(type) > 200 then
            'OB002 type: ' || length(type) || ' characters are too many; use at most 200'
        when payload is null then
            'OB003 payload: SQL null was given; give ''{}'' for no data, or the JSON value ''null'''
        when octet_length(payload::text) > outbox.max_payload_bytes() then
            'OB004 payload: ' || octet_length(payload::text) || ' bytes are more than the limit of '
            || outbox.max_payload_bytes() || '; store the data elsewhere and record a reference, or raise outbox.max_payload_bytes'
        when key = '' or length(key) > 255 then
            'OB002 key: ' || length(key) || ' characters; use 1 to 255, or null for no order'
        when idempotency_key = '' or length(idempotency_key) > 255 then
            'OB002 idempotency_key: ' || length(idempotency_key) || ' characters; use 1 to 255, or null'
        when headers is null then
            'OB005 headers: SQL null was given; give ''{}'' for none'
        when due_at is not null and (not isfinite(due_at) or due_at >= timestamptz '9999-01-01 00:00:00+00') then
            'OB002 due_at: is infinite or after the year 9998; give a moment that comes'
        when headers <> '{}'::jsonb then outbox.header_fault(headers)
    end;
comment on function outbox.event_fault(text, jsonb, text, text, jsonb, timestamptz) is
    'Why an event cannot be recorded: SQLSTATE and message, or null. Never shows a payload or a header value.';

create function outbox.refuse(fault text) returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception using errcode = left(fault, 5), message = substr(fault, 7);
end
$$;
comment on function outbox.refuse(text) is 'Raises a fault: five characters of SQLSTATE, a space, the message.';

-- ------------------------------------------------------------------ routing, doorbell, idempotency keys

create function outbox.type_patterns(type text) returns text[]
    language plpgsql immutable parallel safe
    set search_path = pg_catalog, pg_temp
as $$
declare
    patterns text[] := array['*', type];
    words text[] := string_to_array(type, '.');
    prefix text := '';
begin
    for n in 1 .. cardinality(words) - 1 loop
        prefix := prefix || words[n] || '.';
        patterns := patterns || (prefix || '*');
    end loop;
    return patterns;
end
$$;
comment on function outbox.type_patterns(text) is
    'The patterns in destinations.event_types that match a type: *, the type itself, and order.*, order.item.* for its prefixes.';

create function outbox.mail_recipients(payload jsonb) returns text[]
    language plpgsql immutable parallel safe
    set search_path = pg_catalog, pg_temp
as $$
begin
    -- What is no mail, or one to too many, is one delivery, which the sink refuses with its reason.
    return (
        select case when count(*) between 1 and 1000 then array_agg(each.recipient order by each.n)
                    else array[null::text] end
        from (
            select distinct on (lower(box.address)) box.recipient, box.n
            from (
                select mailbox.value #>> '{}' as recipient, row_number() over (order by field.n, mailbox.n) as n,
                       coalesce(substring(mailbox.value #>> '{}' from '<([^<>]*)>$'),
                                mailbox.value ->> 'address', mailbox.value #>> '{}') as address
                from unnest(array['to', 'cc', 'bcc']) with ordinality field (name, n)
                cross join jsonb_array_elements(case jsonb_typeof(payload -> field.name)
                    when 'array' then payload -> field.name
                    when 'string' then jsonb_build_array(payload -> field.name)
                    when 'object' then jsonb_build_array(payload -> field.name)
                    else '[]' end) with ordinality mailbox (value, n)) box
            order by lower(box.address), box.n) each);
end
$$;
comment on function outbox.mail_recipients(jsonb) is
    'Whom a mail goes to: the elements of to, cc and bcc as text, each address once; each becomes a delivery of its own.';

create function outbox.mail_fault(payload jsonb) returns text
    language plpgsql immutable parallel safe
    set search_path = pg_catalog, pg_temp
as $$
begin
    -- jsonb writes a control character as an escape; a pair of backslashes is one backslash of the text.
    return (
        select 'OB003 payload: $.' || left(field.name, 100)
               || ' has a line break or another control character, which would end its header line; remove it'
        from (
            select top.name, top.value
            from jsonb_each(case jsonb_typeof(payload)
                when 'object' then payload - array['text', 'html', 'attachments'] else '{}' end) top (name, value)
            union all
            select 'attachments', jsonb_path_query_array(
                payload, '$.attachments[*].keyvalue() ? (@.key <> "content").value')
        ) field
        where replace(field.value::text, repeat(chr(92), 2), '') ~ (repeat(chr(92), 2) || '[bfnrtu]|' || chr(127))
        limit 1);
end
$$;
comment on function outbox.mail_fault(jsonb) is
    'Why this cannot be the payload of a mail: SQLSTATE and message, or null. A line break in a header could smuggle in another one.';

create function outbox.mail_routes(payload jsonb) returns text[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp
as $$
declare
    fault text := outbox.mail_fault(payload);
begin
    if fault is not null then
        perform outbox.refuse(fault);
    end if;
    return outbox.mail_recipients(payload);
end
$$;
-- Volatile: planned with its argument known, an immutable one would run, and refuse, for events that are no mail, too.
comment on function outbox.mail_routes(jsonb) is
    'The recipients of a mail, for routing; a payload with line breaks where none may be is refused.';

-- Whether to ring: it costs each commit a database-wide lock, so it is done for sleeping relays only.
-- * One expression, so that no cancelled statement leaves a session lock behind: interrupts are served between statements.
-- * The exclusive lock free: nobody sleeps. Refused, and the shared one too: another recorder looks at this moment, and no
--   relay can sleep while it does. Refused, and the shared one free: a relay holds it shared, asleep.
-- * A queue of notifications that is half full (some listener hangs in a transaction) is not fed: a full one fails commits.
create function outbox.relay_sleeps() returns boolean
    language sql volatile
    return case
        when coalesce(current_setting('outbox.doorbell', true), '') in ('off', 'false', 'no', '0') then false
        when pg_try_advisory_lock(1330205760, 0) then not pg_advisory_unlock(1330205760, 0)
        when pg_try_advisory_lock_shared(1330205760, 0) then
            pg_advisory_unlock_shared(1330205760, 0) and pg_notification_queue_usage() < 0.5
        else false
    end;
comment on function outbox.relay_sleeps() is
    'Whether an idle relay waits for the doorbell, and the setting outbox.doorbell is not off (as PREPARE TRANSACTION needs).';

create sequence outbox.last_ring_seq;
comment on sequence outbox.last_ring_seq is
    'When the doorbell was last rung, and by whom: a count of 5 ms, times 4194304, plus a process id. Not transactional.';

-- NOTIFY takes a database-wide lock from commit until its flush, so those who notify commit one after the other. A relay
-- needs one ring, not one per commit: of all that find it asleep within the same 5 ms one rings, for all of them.
-- * Should that one be slow or roll back, the next 5 ms, or the relay's poll, make up for it. Its own session rings again:
--   outbox.rang_at, like all settings, goes back with the transaction, and then says that the ring never came.
-- * A transaction that has rung remembers it until its end, so that a long one does not keep others from ringing.
create function outbox.ring_doorbell(patterns text[], destination text) returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    ticks bigint := (date_part('epoch', clock_timestamp()) * 200)::bigint;
    last_ring bigint := pg_sequence_last_value('outbox.last_ring_seq');
begin
    if current_setting('outbox.has_rung', true) = 'yes'
       or last_ring / 4194304 = ticks
          and (last_ring % 4194304 <> pg_backend_pid() or current_setting('outbox.rang_at', true) = ticks::text) then
        return;
    end if;
    -- A relay can do nothing for a destination that is held.
    if not exists (
        select from outbox.destinations d
        where d.removed_at is null and d.state = 'active'
          and (d.held_until is null or d.held_until <= clock_timestamp())
          and case when destination is null then d.event_types && patterns else d.name = destination end) then
        return;
    end if;
    perform setval('outbox.last_ring_seq', ticks * 4194304 + pg_backend_pid()),
            set_config('outbox.has_rung', 'yes', true),
            set_config('outbox.rang_at', ticks::text, false),
            pg_notify('outbox', '');
end
$$;
comment on function outbox.ring_doorbell(text[], text) is
    'Wakes idle relays at commit, for events of these patterns or for this destination, unless another transaction does it.';

create function outbox.take_idempotency_key(
    idempotency_key text, candidate uuid,
    type text, payload jsonb, key text, headers jsonb, destination text) returns uuid
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    holder outbox.idempotency_keys;
    envelope bytea := sha256(convert_to(
        jsonb_build_array(type, key, destination, headers - array['traceparent', 'tracestate'])::text, 'UTF8'));
    content bytea := envelope || sha256(convert_to(payload::text, 'UTF8'));
begin
    loop
        -- Waits for a transaction that holds the key uncommitted; if that one rolls back, the key is ours.
        insert into outbox.idempotency_keys (key, event_id, fingerprint, expires_at)
            values (idempotency_key, candidate, content, clock_timestamp() + outbox.idempotency_period())
            on conflict on constraint idempotency_keys_pkey do nothing;
        if found then
            return candidate;
        end if;
        select k.* into holder from outbox.idempotency_keys k where k.key = idempotency_key;
        if found and holder.expires_at > clock_timestamp() then
            exit;
        end if;
        update outbox.idempotency_keys k
            set event_id = candidate, fingerprint = content, expires_at = clock_timestamp() + outbox.idempotency_period()
            where k.key = idempotency_key and k.expires_at <= clock_timestamp();
        if found then
            return candidate;
        end if;
    end loop;
    -- Equal numbers can be spelled in two ways (1.0, 1.00): other text is compared as JSON, while the event is kept.
    if holder.fingerprint = content or substr(holder.fingerprint, 1, 32) = envelope and exists (
            select from outbox.events e where e.id = holder.event_id and e.payload = payload) then
        return holder.event_id;
    end if;
    raise exception using errcode = 'OB001', message = format(
        'idempotency key %s was already used for event %s with other content; use a new key for new content',
        to_json(left(idempotency_key, 100)), holder.event_id);
end
$$;
comment on function outbox.take_idempotency_key(text, uuid, text, jsonb, text, jsonb, text) is
    'The event the key stands for: the candidate if the key was free, else the one before. Other content is refused (OB001).';

-- ------------------------------------------------------------------ record_event

create function outbox.record_event(
    type text, payload jsonb default '{}', key text default null, idempotency_key text default null,
    headers jsonb default '{}', due_at timestamptz default null, destination text default null) returns uuid
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    fault text := outbox.event_fault(type, payload, key, idempotency_key, headers, due_at);
    moment timestamptz := clock_timestamp();
    event_id uuid := outbox.new_event_id(moment);
    patterns text[];
    holder uuid;
begin
    if fault is not null then
        perform outbox.refuse(fault);
    end if;
    if destination is null then
        patterns := outbox.type_patterns(type);
    elsif not exists (select from outbox.destinations d where d.name = destination and d.removed_at is null) then
        perform outbox.refuse('OB006 destination: there is none named ' || to_json(left(destination, 100))
            || '; see `outbox destinations list`');
    end if;
    if idempotency_key is not null then
        holder := outbox.take_idempotency_key(idempotency_key, event_id, type, payload, key, headers, destination);
        if holder <> event_id then
            return holder;
        end if;
    end if;
    if key is not null then
        -- The key fence: held (shared, so recorders never wait for each other) from before the insert below draws a
        -- delivery id until commit. A claim that finds the slot free knows that no smaller id of the key is to come
        -- (promise key-order).
        perform pg_advisory_xact_lock_shared(1330205761, outbox.key_slot(key));
    end if;
    insert into outbox.events (id, type, payload, headers, key, recorded_at)
        values (event_id, type, payload, headers, key, moment);
    -- The clock is read inside the statement that holds the row-exclusive lock on deliveries: relays take what was
    -- recorded before t for decided once the holders of that lock at t are gone.
    insert into outbox.deliveries (event_id, destination_id, key, recipient, due_at, recorded_at)
        select event_id, d.id, key,
            unnest(case d.sink when 'email' then outbox.mail_routes(payload) else array[null::text] end),
            greatest(due_at, clock_timestamp()), moment
        from outbox.destinations d
        where d.removed_at is null
          and case when destination is null then d.event_types && patterns else d.name = destination end;
    if found and outbox.relay_sleeps() then
        perform outbox.ring_doorbell(patterns, destination);
    end if;
    return event_id;
end
$$;
comment on function outbox.record_event(text, jsonb, text, text, jsonb, timestamptz, text) is
    'Records an event in the caller''s transaction (promise caller-commits) and returns its id. Refusals have SQLSTATEs OB….';

-- ------------------------------------------------------------------ JSON that is not jsonb yet

-- jsonb refuses a NUL as a bare 22P05 while it parses the literal, before any function runs. Callers that pass text or
-- json come here instead and learn where it is. A literal without a cast is text for PostgreSQL, which prefers strings.
create function outbox.nul_path(document text) returns text
    language sql immutable parallel safe
begin atomic
    with recursive nodes as (
        -- Pairs of backslashes first: after one, u0000 is five letters. Control character 1 stands for NUL from here on.
        select '$'::text as path, false as named_by_nul,
               replace(replace(document, repeat(chr(92), 2), chr(92) || 'u0002'),
                       chr(92) || 'u0000', chr(92) || 'u0001')::jsonb as value
        union all
        select n.path || child.step, child.named_by_nul, child.value
        from nodes n cross join lateral (
            select case when member.key ~ '^[A-Za-z_][A-Za-z0-9_]*$' then '.' || left(member.key, 100)
                        else '.' || replace(to_json(left(member.key, 100))::text, 'u0001', 'u0000') end as step,
                   member.value, position(chr(1) in member.key) > 0 as named_by_nul
            from jsonb_each(case jsonb_typeof(n.value) when 'object' then n.value else '{}' end) member
            union all
            select '[' || element.n - 1 || ']', element.value, false
            from jsonb_array_elements(case jsonb_typeof(n.value) when 'array' then n.value else '[]' end)
                with ordinality element (value, n)
        ) child
    )
    select path from nodes
    where named_by_nul or jsonb_typeof(value) = 'string' and position(chr(1) in value #>> '{}') > 0
    limit 1;
end;
comment on function outbox.nul_path(text) is 'The path of the first NUL in JSON text, like $.lines[2].note, or null.';

create function outbox.storable_json(argument text, document text) returns jsonb
    language plpgsql immutable parallel safe
    set search_path = pg_catalog, pg_temp
as $$
declare
    path text;
begin
    if position(chr(92) || 'u0000' in document) > 0 then
        path := outbox.nul_path(document);
        if path is not null then
            perform outbox.refuse('OB003 ' || argument || ': ' || path || ': NUL (' || chr(92)
                || 'u0000) is not storable in PostgreSQL; remove or encode it');
        end if;
    end if;
    return document::jsonb;
end
$$;
comment on function outbox.storable_json(text, text) is 'JSON text as jsonb; a NUL is refused with its path.';

create function outbox.record_event(
    type text, payload text, key text default null, idempotency_key text default null,
    headers text default '{}', due_at timestamptz default null, destination text default null) returns uuid
    language sql volatile
    return outbox.record_event(
        type, outbox.storable_json('payload', payload), key, idempotency_key,
        outbox.storable_json('headers', headers), due_at, destination);
comment on function outbox.record_event(text, text, text, text, text, timestamptz, text) is
    'record_event for JSON text: a NUL is refused with its path.';

create function outbox.record_event(
    type text, payload json, key text default null, idempotency_key text default null,
    headers jsonb default '{}', due_at timestamptz default null, destination text default null) returns uuid
    language sql volatile
    return outbox.record_event(
        type, outbox.storable_json('payload', payload::text), key, idempotency_key, headers, due_at, destination);
comment on function outbox.record_event(text, json, text, text, jsonb, timestamptz, text) is
    'record_event for json, as row_to_json and json_build_object return it.';

-- ------------------------------------------------------------------ record_events

create function outbox.entry_fault(entry jsonb) returns text
    language sql stable parallel safe
    return case
        when jsonb_typeof(entry) <> 'object' then
            'OB007 is a JSON ' || jsonb_typeof(entry) || '; give an object like {"type": "order.paid", "payload": {}}'
        when coalesce(jsonb_typeof(entry -> 'type'), 'null') <> 'string' then
            'OB002 type: is missing or not a string; write letters, digits and underscores joined by dots, like order.paid'
        when entry - array['type', 'payload'] = '{}'::jsonb then null  -- most are no more than that
        when entry - array['type', 'payload', 'key', 'idempotency_key', 'headers', 'due_at', 'delay_seconds', 'destination']
             <> '{}'::jsonb then
            'OB007 has a field that no event has; it knows type, payload, key, idempotency_key, headers, due_at,'
            ' delay_seconds and destination'
        when coalesce(jsonb_typeof(entry -> 'key'), 'null') not in ('string', 'null') then
            'OB002 key: is not a string'
        when coalesce(jsonb_typeof(entry -> 'idempotency_key'), 'null') not in ('string', 'null') then
            'OB002 idempotency_key: is not a string'
        when coalesce(jsonb_typeof(entry -> 'destination'), 'null') not in ('string', 'null') then
            'OB002 destination: is not a string'
        when coalesce(entry ->> 'due_at', '2026-12-01T00:00Z')
             !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)$' then
            'OB002 due_at: is not a time with an offset; write it like 2026-12-01T09:30:00+00:00'
        when coalesce(jsonb_typeof(entry -> 'delay_seconds'), 'null') not in ('number', 'null')
             or jsonb_typeof(entry -> 'delay_seconds') = 'number'
                and not (entry -> 'delay_seconds')::numeric between 0 and 315360000 then
            'OB002 delay_seconds: is not a number from 0 to 315360000 (ten years)'
        when entry ->> 'due_at' is not null and entry ->> 'delay_seconds' is not null then
            'OB002 due_at: is given together with delay_seconds; give one of them'
    end;
comment on function outbox.entry_fault(jsonb) is 'Why this is no entry of record_events: SQLSTATE and message, or null.';

create function outbox.batch_entries(events jsonb, moment timestamptz)
    returns table (
        n integer, type text, payload jsonb, key text, idempotency_key text, headers jsonb, due_at timestamptz,
        destination text)
    language sql stable parallel safe
begin atomic
    select element.n::integer, element.entry ->> 'type', coalesce(element.entry -> 'payload', '{}'::jsonb),
           element.entry ->> 'key', element.entry ->> 'idempotency_key',
           coalesce(nullif(element.entry -> 'headers', 'null'::jsonb), '{}'::jsonb),
           coalesce((element.entry ->> 'due_at')::timestamptz,
                    moment + make_interval(secs => (element.entry ->> 'delay_seconds')::double precision)),
           element.entry ->> 'destination'
    from jsonb_array_elements(events) with ordinality element (entry, n);
end;
comment on function outbox.batch_entries(jsonb, timestamptz) is
    'The entries of record_events, counted from 1, with defaults filled in.';

create function outbox.refuse_batch(events jsonb) returns void
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    refused record;
begin
    if events is null or jsonb_typeof(events) <> 'array' then
        perform outbox.refuse('OB007 events: is not a JSON array; give one array of objects');
    end if;
    select element.n::integer - 1 as n, outbox.entry_fault(element.entry) as fault into refused
        from jsonb_array_elements(events) with ordinality element (entry, n)
        where outbox.entry_fault(element.entry) is not null
        limit 1;
    if not found then
        select c.n, c.fault into refused
            from (
                select e.n - 1 as n,
                       outbox.event_fault(e.type, e.payload, e.key, e.idempotency_key, e.headers, e.due_at) as fault
                from outbox.batch_entries(events, now()) e
                offset 0) c
            where c.fault is not null
            limit 1;
    end if;
    if not found then
        select e.n - 1 as n, 'OB006 destination: there is none named ' || to_json(left(e.destination, 100))
                || '; see `outbox destinations list`' as fault into refused
            from outbox.batch_entries(events, now()) e
            where e.destination is not null
              and not exists (select from outbox.destinations d where d.name = e.destination and d.removed_at is null)
            limit 1;
    end if;
    if found then
        perform outbox.refuse(left(refused.fault, 6) || 'events[' || refused.n || '] ' || substr(refused.fault, 7));
    end if;
end
$$;
comment on function outbox.refuse_batch(jsonb) is 'Raises the first fault of a batch, with its position counted from 0.';

create function outbox.record_events(events jsonb) returns setof uuid
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    moment timestamptz := clock_timestamp();
    ids uuid[];
    duplicates integer[] := array[]::integer[];
    entry record;
    holder uuid;
begin
    perform outbox.refuse_batch(events);
    -- A microsecond apart, so that they sort as they stand in the array, on servers without uuidv7(), too.
    ids := array(
        select outbox.new_event_id(moment + n * interval '1 microsecond')
        from generate_series(1, jsonb_array_length(events)) n);
    -- In the order of the keys: two batches with the same keys wait for each other, they do not deadlock.
    for entry in
        select e.* from outbox.batch_entries(events, moment) e
        where e.idempotency_key is not null
        order by e.idempotency_key, e.n
    loop
        holder := outbox.take_idempotency_key(
            entry.idempotency_key, ids[entry.n], entry.type, entry.payload, entry.key, entry.headers, entry.destination);
        if holder <> ids[entry.n] then
            ids[entry.n] := holder;
            duplicates := duplicates || entry.n;
        end if;
    end loop;
    -- The key fence, see record_event.
    perform pg_advisory_xact_lock_shared(1330205761, slot)
        from (
            select distinct outbox.key_slot(e.key) as slot
            from outbox.batch_entries(events, moment) e
            where e.key is not null) slots;
    with entries as materialized (
        select e.*, ids[e.n] as event_id from outbox.batch_entries(events, moment) e where e.n <> all (duplicates)
    ), recorded as (
        insert into outbox.events (id, type, payload, headers, key, recorded_at)
            select e.event_id, e.type, e.payload, e.headers, e.key, moment from entries e
    ), routes as materialized (
        select t.type, null as destination, d.id as destination_id, d.sink
            from (select distinct e.type from entries e where e.destination is null) t
            join outbox.destinations d on d.removed_at is null and d.event_types && outbox.type_patterns(t.type)
        union all
        select null, d.name, d.id, d.sink
            from (select distinct e.destination from entries e where e.destination is not null) t
            join outbox.destinations d on d.removed_at is null and d.name = t.destination
    )
    insert into outbox.deliveries (event_id, destination_id, key, recipient, due_at, recorded_at)
        -- The clock as in record_event: inside the statement that holds the lock.
        select e.event_id, r.destination_id, e.key,
            unnest(case r.sink when 'email' then outbox.mail_routes(e.payload) else array[null::text] end),
            greatest(e.due_at, clock_timestamp()), moment
        from entries e
        join routes r on case when e.destination is null then r.type = e.type else r.destination = e.destination end
        order by e.n, r.destination_id;
    if found and outbox.relay_sleeps() then
        perform outbox.ring_doorbell(d.patterns, d.destination)
            from (
                select distinct outbox.type_patterns(e.type) as patterns, e.destination
                from outbox.batch_entries(events, moment) e) d;
    end if;
    return query select unnest(ids);
end
$$;
comment on function outbox.record_events(jsonb) is
    'Records an array of objects with the arguments of record_event as fields, all or none; returns their ids in this order.';

create function outbox.record_events(events text) returns setof uuid
    language sql volatile
begin atomic
    select * from outbox.record_events(outbox.storable_json('events', events));
end;
comment on function outbox.record_events(text) is 'record_events for JSON text: a NUL is refused with its path.';

-- ------------------------------------------------------------------ rights

-- A new function may be executed by everybody: take that back. outbox.grant_roles() gives it to whom it belongs.
revoke execute on all functions in schema outbox from public;
