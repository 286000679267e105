-- Creates outbox.capture: a trigger that records an event for each row an application writes, where its code cannot be changed.
-- Locks: none here; capture() itself takes SHARE ROW EXCLUSIVE on the captured table, for an instant. Deploy before the code.
-- Breaking: no, first release.

-- to_jsonb calls a type's own cast to json, and the trigger runs it with the rights of its owner. A cast that somebody other
-- than a superuser made must not get these.
create function outbox.has_foreign_cast(captured oid) returns boolean
    language sql stable
    set search_path = pg_catalog, pg_temp
as $$
    select exists (
            select from pg_attribute a where a.attrelid = captured and a.attnum > 0 and a.atttypid >= 16384)
       and exists (
            select from pg_cast c
            join pg_proc f on f.oid = c.castfunc
            join pg_roles r on r.oid = f.proowner
            where c.casttarget = 'json'::regtype and c.oid >= 16384 and not r.rolsuper)
$$;
comment on function outbox.has_foreign_cast(oid) is 'Whether to_jsonb on a row of this table might run code of an ordinary role.';

create function outbox.capture_row() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    -- What to_jsonb writes must not depend on who writes the row.
    set timezone = 'UTC'
    set intervalstyle = 'iso_8601'
    set bytea_output = 'hex'
    set extra_float_digits = 1
as $$
declare
    type_template text := tg_argv[0];
    key_column text := nullif(tg_argv[1], '');
    columns text[] := nullif(tg_argv[2], '')::text[];
    operation text := case tg_op when 'INSERT' then 'inserted' when 'UPDATE' then 'updated' else 'deleted' end;
    origin jsonb := jsonb_build_object(
        'op', operation, 'table', coalesce(pg_partition_root(tg_relid), tg_relid)::regclass);
    old_row jsonb;
    new_row jsonb;
    row_key text;
    payload jsonb;
begin
    if outbox.has_foreign_cast(tg_relid) then
        payload := origin || jsonb_build_object(
            'row', null, 'omitted', 'a type in this database has a cast to json that an ordinary role made');
        perform outbox.record_event(replace(type_template, '{op}', operation), payload);
        return null;
    end if;
    if tg_op <> 'INSERT' then
        old_row := to_jsonb(old);
    end if;
    if tg_op <> 'DELETE' then
        new_row := to_jsonb(new);
    end if;
    row_key := coalesce(new_row, old_row) ->> key_column;
    if columns is not null then
        old_row := (select jsonb_object_agg(c, old_row -> c) from unnest(columns) c where old_row is not null);
        new_row := (select jsonb_object_agg(c, new_row -> c) from unnest(columns) c where new_row is not null);
    end if;
    if old_row = new_row then
        return null;
    end if;
    payload := origin || jsonb_build_object('row', coalesce(new_row, old_row));
    if tg_op = 'UPDATE' then
        payload := payload || jsonb_build_object('before', (
            select jsonb_object_agg(o.key, o.value)
            from jsonb_each(old_row) o where o.value is distinct from new_row -> o.key));
    end if;
    -- Nobody can change the code that writes this row: what cannot be recorded whole is recorded as far as it can be.
    if octet_length(payload::text) > outbox.max_payload_bytes() then
        payload := origin || jsonb_build_object(
            'row', null, 'omitted', 'the row is larger than outbox.max_payload_bytes', 'key', left(row_key, 255));
    end if;
    if length(row_key) > 255 then
        row_key := encode(sha256(convert_to(row_key, 'UTF8')), 'hex');
    end if;
    perform outbox.record_event(replace(type_template, '{op}', operation), payload, key => nullif(row_key, ''));
    return null;
end
$$;
comment on function outbox.capture_row() is
    'Trigger of outbox.capture: records an event for the row just written, whatever rights its writer has.';

create function outbox.release_capture(captured regclass) returns boolean
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from pg_trigger t where t.tgrelid = captured and t.tgname = 'outbox_capture') then
        return false;
    end if;
    execute format('drop trigger outbox_capture on %s', captured);
    return true;
end
$$;
comment on function outbox.release_capture(regclass) is 'Removes the trigger of outbox.capture, and tells whether there was one.';

create function outbox.capture(
    captured regclass, type text default null, key text default null, columns text[] default null) returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    table_name text := (select c.relname from pg_class c where c.oid = captured);
    template text := coalesce(type, lower(table_name) || '.{op}');
    fault text := outbox.event_fault(replace(template, '{op}', 'inserted'), '{}', null, null, '{}', null);
    unknown text := (
        select name from unnest(columns || key) name
        where name is not null and not exists (
            select from pg_attribute a where a.attrelid = captured and a.attname = name and a.attnum > 0 and not a.attisdropped)
        limit 1);
begin
    if captured is null then
        perform outbox.refuse('OB009 captured: SQL null was given; give the name of a table');
    end if;
    if fault is not null then
        perform outbox.refuse(fault || '; {op} stands for inserted, updated or deleted');
    end if;
    if unknown is not null then
        perform outbox.refuse('OB009 columns: ' || captured || ' has no column ' || to_json(unknown));
    end if;
    if cardinality(columns) = 0 then
        perform outbox.refuse('OB009 columns: none were given; name some, or leave the argument out for all');
    end if;
    -- Not "create or replace": that would refuse a partitioned table.
    perform outbox.release_capture(captured);
    execute format(
        'create trigger outbox_capture after insert or update or delete on %s'
        ' for each row execute function outbox.capture_row(%L, %L, %L)',
        captured, template, coalesce(key, ''), coalesce(columns::text, ''));
end
$$;
comment on function outbox.capture(regclass, text, text, text[]) is
    'Records an event for each row of the table that is inserted, updated or deleted from now on (not truncated). Needs the TRIGGER right on it. {op} in the type is inserted, updated or deleted; key names the column of the ordering key; columns limits the payload, and which updates count.';

revoke execute on all functions in schema outbox from public;
