-- Creates the upkeep of the tables: daily partitions ahead, retention behind, expiry of keys, compaction of counts.
-- Locks: none that an application could wait for, everything here is new. Deploy before the code. Breaking: no, first release.
--
-- All functions are SECURITY DEFINER, so that a relay needs no ownership, and each call is one transaction of bounded locks:
-- lock_timeout is 150 ms, as new recorders queue behind a lock that waits. A call that does not get its lock raises 55P03 and
-- has changed nothing; outbox/prune.py tries again later. Days are days of UTC.

-- ------------------------------------------------------------------ partitions as rows

create function outbox.uuid_moment(id uuid) returns timestamptz
    language sql immutable strict parallel safe
    return to_timestamp(('x' || substr(replace(id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0);
comment on function outbox.uuid_moment(uuid) is 'The millisecond in a uuid v7: the reverse of outbox.uuid_floor.';

create function outbox.list_partitions()
    returns table (parent text, name text, lower_bound timestamptz, upper_bound timestamptz, is_default boolean)
    language sql stable
    set search_path = pg_catalog, pg_temp
    set timezone = 'UTC'
    set datestyle = 'ISO'
as $$
    select parent.relname, child.relname,
           case when bound.edges[1] like '''____-%' then trim('''' from bound.edges[1])::timestamptz
                else outbox.uuid_moment(trim('''' from bound.edges[1])::uuid) end,
           case when bound.edges[2] like '''____-%' then trim('''' from bound.edges[2])::timestamptz
                else outbox.uuid_moment(trim('''' from bound.edges[2])::uuid) end,
           bound.edges is null
    from pg_class parent
    join pg_inherits i on i.inhparent = parent.oid
    join pg_class child on child.oid = i.inhrelid
    cross join lateral (
        select regexp_match(pg_get_expr(child.relpartbound, child.oid), 'FROM [(](.*)[)] TO [(](.*)[)]') as edges) bound
    where parent.relnamespace = 'outbox'::regnamespace and parent.relkind = 'p'
    order by parent.relname, 3 nulls last
$$;
comment on function outbox.list_partitions() is 'The partitions of outbox.events and outbox.attempts with their bounds as times; the default has none.';

create view outbox.partitions as select * from outbox.list_partitions();
comment on view outbox.partitions is 'The partitions of outbox.events and outbox.attempts with their bounds as times; the default has none.';

create function outbox.partition_column(parent text) returns text
    language sql immutable parallel safe
    return case parent when 'events' then 'id' when 'attempts' then 'started_at' end;
comment on function outbox.partition_column(text) is 'What a table is partitioned by.';

create function outbox.partition_edge(parent text, moment timestamptz) returns text
    language sql stable parallel safe
    return case parent when 'events' then outbox.uuid_floor(moment)::text else to_char(moment at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US"Z"') end;
comment on function outbox.partition_edge(text, timestamptz) is 'The bound of a partition at this moment, as a literal.';

-- ------------------------------------------------------------------ partitions ahead

create function outbox.attach_partition(parent text, lower_bound timestamptz, upper_bound timestamptz) returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    name text := parent || to_char(lower_bound at time zone 'UTC', '_YYYY_MM_DD');
begin
    -- Created first and attached then: that locks out nobody who writes to other partitions, CREATE … PARTITION OF would.
    execute format('create table outbox.%I (like outbox.%I including defaults including constraints including indexes)', name, parent);
    execute format('comment on table outbox.%I is %L', name, format('Rows of outbox.%s from %s (UTC) on.', parent, to_char(lower_bound at time zone 'UTC', 'YYYY-MM-DD')));
    execute format('alter table outbox.%I attach partition outbox.%I for values from (%L) to (%L)', parent, name,
        outbox.partition_edge(parent, lower_bound), outbox.partition_edge(parent, upper_bound));
end
$$;
comment on function outbox.attach_partition(text, timestamptz, timestamptz) is 'Adds an empty partition named for its first day.';

create function outbox.rename_partition(old_name text, new_name text) returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    index_name text;
begin
    execute format('alter table outbox.%I rename to %I', old_name, new_name);
    for index_name in
        select c.relname from pg_index i join pg_class c on c.oid = i.indexrelid
        where i.indrelid = format('outbox.%I', new_name)::regclass and starts_with(c.relname, old_name)
    loop
        execute format('alter index outbox.%I rename to %I', index_name, new_name || substr(index_name, length(old_name) + 1));
    end loop;
end
$$;
comment on function outbox.rename_partition(text, text) is 'Renames a detached partition and its indexes, so that the name is free again.';

create function outbox.default_holds(parent text, lower_bound timestamptz, upper_bound timestamptz) returns boolean
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    holds boolean;
begin
    execute format('select exists (select from outbox.%I where %I >= %L and %2$I < %4$L)', parent || '_default', outbox.partition_column(parent),
        outbox.partition_edge(parent, lower_bound), outbox.partition_edge(parent, upper_bound)) into holds;
    return holds;
end
$$;
comment on function outbox.default_holds(text, timestamptz, timestamptz) is 'Whether the default partition has rows of this time.';

create function outbox.missing_days(first_day timestamptz, last_moment timestamptz)
    returns table (parent text, lower_bound timestamptz, upper_bound timestamptz)
    language sql stable
    set search_path = pg_catalog, pg_temp
    set timezone = 'UTC'
as $$
    select p.parent, d.day, d.day + interval '1 day'
    from (values ('attempts'), ('events')) p (parent)
    cross join generate_series(date_trunc('day', first_day), last_moment, interval '1 day') d (day)
    where not exists (
        select from outbox.list_partitions() l
        where l.parent = p.parent and l.lower_bound < d.day + interval '1 day' and l.upper_bound > d.day)
    order by d.day, p.parent
$$;
comment on function outbox.missing_days(timestamptz, timestamptz) is 'The days that no partition covers.';

create function outbox.create_partitions(ahead_days integer default 7) returns integer
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '150ms'
    set timezone = 'UTC'
as $$
declare
    missing record;
    made integer := 0;
begin
    if ahead_days is null or ahead_days not between 1 and 366 then
        perform outbox.refuse('OB008 ahead_days: ' || coalesce(ahead_days::text, 'null') || ' is not a number of days from 1 to 366');
    end if;
    perform pg_advisory_xact_lock(1330205763, 0);
    for missing in
        select m.* from outbox.missing_days(clock_timestamp(), clock_timestamp() + ahead_days * interval '1 day') m
        where m.lower_bound > clock_timestamp() + interval '1 hour'
    loop
        -- Rows of that day in the default partition forbid it.
        if not outbox.default_holds(missing.parent, missing.lower_bound, missing.upper_bound) then
            perform outbox.attach_partition(missing.parent, missing.lower_bound, missing.upper_bound);
            made := made + 1;
        end if;
    end loop;
    return made;
end
$$;
comment on function outbox.create_partitions(integer) is
    'Creates the missing partitions of the days ahead, and returns how many. That of today is for outbox.cover_now.';

create function outbox.cover_now(parent text) returns integer
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '150ms'
    set timezone = 'UTC'
as $$
declare
    missing record;
    made integer := 0;
begin
    perform pg_advisory_xact_lock(1330205763, 0);
    for missing in
        select m.* from outbox.missing_days(clock_timestamp(), clock_timestamp() + interval '1 hour') m where m.parent = cover_now.parent
    loop
        -- A recorder that has chosen the default partition and waits for it while this attaches would fail: its row belongs
        -- elsewhere then. So nobody may be on the way: this needs the lock on the whole table, as the days ahead do not.
        execute format('lock table outbox.%I in access exclusive mode', parent);
        if not outbox.default_holds(missing.parent, missing.lower_bound, missing.upper_bound) then
            perform outbox.attach_partition(missing.parent, missing.lower_bound, missing.upper_bound);
            made := made + 1;
        end if;
    end loop;
    return made;
end
$$;
comment on function outbox.cover_now(text) is
    'Creates the partition of today (and of tomorrow in the last hour) if it is missing and the default partition has none of its rows.';

-- ------------------------------------------------------------------ rows in the default partition

-- No row moves: the default partition itself becomes the partition of the gap it filled, and an empty one takes its place.
-- Attaching makes PostgreSQL look at each row under a lock that recorders wait for. With a validated check of the bounds it
-- does not, so a large default partition gets one first (constrain_default, then validate_default in a transaction of its own,
-- which blocks nobody). That check ends eight days ahead: it must not outlive an interrupted adoption, see outbox/prune.py.

create function outbox.default_gap(parent text, out lower_bound timestamptz, out upper_bound timestamptz)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    set timezone = 'UTC'
as $$
declare
    lowest timestamptz;
    highest timestamptz;
begin
    -- Ordered, not aggregated: there is no min(uuid).
    execute format(case parent
            when 'events' then 'select outbox.uuid_moment((select id from outbox.%1$I order by id limit 1)), outbox.uuid_moment((select id from outbox.%1$I order by id desc limit 1))'
            else 'select min(started_at), max(started_at) from outbox.%1$I' end, parent || '_default') into lowest, highest;
    select coalesce(max(l.upper_bound), '-infinity') into lower_bound
        from outbox.list_partitions() l where l.parent = default_gap.parent and l.lower_bound <= lowest;
    lower_bound := greatest(lower_bound, date_trunc('day', lowest));
    select coalesce(min(l.lower_bound), 'infinity') into upper_bound
        from outbox.list_partitions() l where l.parent = default_gap.parent and l.lower_bound > lowest;
    upper_bound := least(upper_bound, date_trunc('day', clock_timestamp()) + interval '8 days');
    if lowest is null or highest >= upper_bound then
        lower_bound := null;
        upper_bound := null;
    end if;
end
$$;
comment on function outbox.default_gap(text) is
    'The gap between partitions that the rows of the default partition fill, up to eight days ahead. Null if there are none, or in several gaps.';

create function outbox.constrain_default(parent text) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '150ms'
as $$
declare
    gap record := outbox.default_gap(parent);
begin
    if gap.lower_bound is null then
        return false;
    end if;
    execute format('alter table outbox.%I drop constraint if exists default_fills_one_gap', parent || '_default');
    execute format('alter table outbox.%I add constraint default_fills_one_gap check (%I >= %L and %2$I < %4$L) not valid', parent || '_default',
        outbox.partition_column(parent), outbox.partition_edge(parent, gap.lower_bound), outbox.partition_edge(parent, gap.upper_bound));
    return true;
end
$$;
comment on function outbox.constrain_default(text) is 'Adds the check that spares outbox.adopt_default its scan. False if the rows fill no single gap.';

create function outbox.validate_default(parent text) returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '150ms'
as $$
begin
    execute format('alter table outbox.%I validate constraint default_fills_one_gap', parent || '_default');
end
$$;
comment on function outbox.validate_default(text) is 'Validates that check; recording goes on meanwhile.';

create function outbox.release_default(parent text) returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '150ms'
as $$
begin
    if exists (
        select from pg_constraint c
        where c.conrelid = to_regclass(format('outbox.%I', parent || '_default')) and c.conname = 'default_fills_one_gap') then
        execute format('alter table outbox.%I drop constraint default_fills_one_gap', parent || '_default');
    end if;
end
$$;
comment on function outbox.release_default(text) is 'Removes that check again; a default partition must take everything.';

create function outbox.adopt_default(parent text) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '150ms'
    set timezone = 'UTC'
as $$
declare
    gap record;
    name text;
begin
    perform pg_advisory_xact_lock(1330205763, 0);
    gap := outbox.default_gap(parent);
    if gap.lower_bound is null then
        return false;
    end if;
    execute format('lock table outbox.%I in access exclusive mode', parent);
    gap := outbox.default_gap(parent);
    if not exists (
        select from pg_constraint c
        where c.conrelid = format('outbox.%I', parent || '_default')::regclass and c.conname = 'default_fills_one_gap' and c.convalidated) then
        if pg_relation_size(format('outbox.%I', parent || '_default')::regclass) > 33554432 then
            return false;
        end if;
        gap.upper_bound := least(gap.upper_bound, date_trunc('day', clock_timestamp()) + interval '1 day');
    end if;
    name := parent || to_char(gap.lower_bound, '_YYYY_MM_DD');
    if to_regclass(format('outbox.%I', name)) is not null then
        name := name || to_char(gap.lower_bound, '_HH24_MI_SS');
    end if;
    execute format('alter table outbox.%I detach partition outbox.%I', parent, parent || '_default');
    perform outbox.rename_partition(parent || '_default', name);
    execute format('alter table outbox.%I attach partition outbox.%I for values from (%L) to (%L)', parent, name,
        outbox.partition_edge(parent, gap.lower_bound), outbox.partition_edge(parent, gap.upper_bound));
    execute format('alter table outbox.%I drop constraint if exists default_fills_one_gap', name);
    execute format('create table outbox.%I (like outbox.%I including defaults including constraints including indexes)', parent || '_default', parent);
    execute format('alter table outbox.%I attach partition outbox.%I default', parent, parent || '_default');
    execute format('comment on table outbox.%I is %L', parent || '_default',
        'Takes what no other partition takes: a missing partition never fails a transaction.');
    return true;
end
$$;
comment on function outbox.adopt_default(text) is
    'Makes the default partition the partition of the gap its rows fill, and puts an empty one in its place. False if there is nothing to do, the rows fill several gaps, or it is larger than 32 MiB and has no validated check.';

-- ------------------------------------------------------------------ retention

create function outbox.check_retention(keep interval) returns timestamptz
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if keep is null or keep < interval '1 day' or keep > interval '100 years' then
        perform outbox.refuse('OB008 keep: ' || coalesce(keep::text, 'null') || ' is not a time from 1 day to 100 years');
    end if;
    return clock_timestamp() - keep;
end
$$;
comment on function outbox.check_retention(interval) is 'The moment before which finished rows go.';

create function outbox.unfinished_events(lower_bound timestamptz, upper_bound timestamptz, since timestamptz) returns setof uuid
    language sql stable
    set search_path = pg_catalog, pg_temp
as $$
    -- By the index on event_id each: the few that are left, never the many that are done.
    select d.event_id from outbox.deliveries d where d.event_id >= outbox.uuid_floor(lower_bound) and d.event_id < outbox.uuid_floor(upper_bound)
    union
    select l.event_id from outbox.dead_letters l where l.event_id >= outbox.uuid_floor(lower_bound) and l.event_id < outbox.uuid_floor(upper_bound)
    union
    select a.event_id from outbox.attempts a
    where a.event_id >= outbox.uuid_floor(lower_bound) and a.event_id < outbox.uuid_floor(upper_bound) and a.started_at >= since
$$;
comment on function outbox.unfinished_events(timestamptz, timestamptz, timestamptz) is
    'Events recorded between the bounds that retention spares: with an open delivery, a dead letter, or an attempt since.';

create function outbox.spared_events(partition outbox.partitions, since timestamptz) returns uuid[]
    language sql stable
    set search_path = pg_catalog, pg_temp
as $$
    -- Attempts stay as long as their event has an open delivery or a dead letter, whenever that was recorded.
    select array(
        select outbox.unfinished_events(
            case (partition).parent when 'events' then (partition).lower_bound else timestamptz '1970-01-01 00:00:00+00' end,
            (partition).upper_bound,
            case (partition).parent when 'events' then since else 'infinity' end)
        limit 20001)
$$;
comment on function outbox.spared_events(outbox.partitions, timestamptz) is
    'Events whose rows retention spares in a partition; 20,001 stand for too many.';

create function outbox.spared_rows(partition outbox.partitions, events uuid[], out spared bigint, out others boolean)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    execute format('select count(*) from outbox.%I where %I = any ($1)', (partition).name,
        case (partition).parent when 'events' then 'id' else 'event_id' end) into spared using events;
    execute format('select count(*) > %s from (select from outbox.%I limit %1$s + 1) few', spared, (partition).name) into others;
end
$$;
comment on function outbox.spared_rows(outbox.partitions, uuid[]) is 'How many rows of a partition belong to these events, and whether it has others.';

create function outbox.purge_partition(partition text, keep interval) returns bigint
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '150ms'
as $$
declare
    since timestamptz := outbox.check_retention(keep);
    old outbox.partitions;
    rows record;
begin
    perform pg_advisory_xact_lock(1330205763, 0);
    select p.* into old from outbox.partitions p where p.name = partition and p.upper_bound <= since;
    if not found then
        perform outbox.refuse('OB008 partition: ' || to_json(left(partition, 100)) || ' is none, or holds what is to be kept');
    end if;
    rows := outbox.spared_rows(old, outbox.spared_events(old, since));
    if not rows.others then
        return rows.spared;
    end if;
    if cardinality(outbox.spared_events(old, since)) > 20000 then
        return null;
    end if;
    -- Looked up again under the lock, or a replay in between would lose its event. Recorders never touch this partition;
    -- relays wait while at most 20,000 events are written back.
    execute format('lock table outbox.%I in access exclusive mode', partition);
    execute format('create temp table outbox_spared on commit drop as select * from outbox.%I where %I = any ($1)', partition,
        case old.parent when 'events' then 'id' else 'event_id' end) using outbox.spared_events(old, since);
    execute format('truncate outbox.%I', partition);
    execute format('insert into outbox.%I select * from pg_temp.outbox_spared', partition);
    get diagnostics rows.spared = row_count;
    drop table pg_temp.outbox_spared;
    return rows.spared;
end
$$;
comment on function outbox.purge_partition(text, interval) is
    'Empties a partition whose days are over, but for what is unfinished, and returns how many rows stay. Null: more than 20,000 events are unfinished, nothing was done.';

create function outbox.fold_partitions(parent text, keep interval) returns integer
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '150ms'
as $$
declare
    since timestamptz := outbox.check_retention(keep);
    streak record;
    old text;
    filled boolean;
    gone integer := 0;
begin
    perform pg_advisory_xact_lock(1330205763, 0);
    if pg_relation_size(format('outbox.%I', parent || '_default')::regclass) > 33554432 then
        return 0;  -- attaching would scan it under the lock; outbox.adopt_default comes first
    end if;
    -- Streaks of purged partitions that touch each other. What was kept whole (large) ends a streak.
    for streak in
        select array_agg(s.name order by s.lower_bound) as names, min(s.lower_bound) as lower_bound, max(s.upper_bound) as upper_bound
        from (
            select l.*, count(*) filter (where l.starts) over (order by l.lower_bound) as number
            from (
                select l.*, l.lower_bound is distinct from lag(l.upper_bound) over (order by l.lower_bound) as starts
                from outbox.list_partitions() l
                where l.parent = fold_partitions.parent and l.upper_bound <= since
                  and pg_table_size(format('outbox.%I', l.name)::regclass) <= 268435456) l) s
        group by s.number
    loop
        execute 'select ' || (select string_agg(format('exists (select from outbox.%I)', n), ' or ') from unnest(streak.names) n) into filled;
        continue when filled and cardinality(streak.names) = 1;
        if filled then
            -- The check spares attaching a scan under the lock.
            execute format('create table outbox.%I (like outbox.%I including defaults including constraints including indexes,'
                ' constraint folding_bounds check (%I >= %L and %3$I < %5$L))', parent || '_folding', parent, outbox.partition_column(parent),
                outbox.partition_edge(parent, streak.lower_bound), outbox.partition_edge(parent, streak.upper_bound));
            foreach old in array streak.names loop
                execute format('insert into outbox.%I select * from outbox.%I', parent || '_folding', old);
            end loop;
        end if;
        execute format('lock table outbox.%I in access exclusive mode', parent);
        foreach old in array streak.names loop
            execute format('drop table outbox.%I', old);
            gone := gone + 1;
        end loop;
        if filled then
            perform outbox.rename_partition(parent || '_folding', streak.names[1]);
            execute format('alter table outbox.%I attach partition outbox.%I for values from (%L) to (%L)', parent, streak.names[1],
                outbox.partition_edge(parent, streak.lower_bound), outbox.partition_edge(parent, streak.upper_bound));
            execute format('alter table outbox.%I drop constraint folding_bounds', streak.names[1]);
            execute format('comment on table outbox.%I is %L', streak.names[1], 'What is unfinished of days whose retention is over.');
            gone := gone - 1;
        end if;
    end loop;
    return gone;
end
$$;
comment on function outbox.fold_partitions(text, interval) is
    'Drops purged partitions that are empty, folds the rest of them into one, and returns how many are gone. Waits at most 150 ms for the lock that recorders wait behind.';

create function outbox.purge_default(parent text, keep interval, max_rows integer default 5000) returns bigint
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '150ms'
as $$
declare
    since timestamptz := outbox.check_retention(keep);
    removed bigint;
begin
    execute format(case parent
        when 'events' then
            'delete from outbox.events_default where id in (select e.id from outbox.events_default e where e.id < outbox.uuid_floor(%L)'
            ' and e.id not in (select outbox.unfinished_events(''1970-01-01Z'', %1$L, %1$L)) limit %s)'
        when 'attempts' then
            'delete from outbox.attempts_default where ctid = any (array(select a.ctid from outbox.attempts_default a where a.started_at < %L'
            ' and a.event_id not in (select outbox.unfinished_events(''1970-01-01Z'', %1$L, ''infinity'')) limit %s))'
        end, since, max_rows);
    get diagnostics removed = row_count;
    return removed;
end
$$;
comment on function outbox.purge_default(text, interval, integer) is
    'Deletes finished rows of the default partition that outlived retention, at most so many, and returns how many.';

create function outbox.expire_idempotency_keys(max_rows integer default 5000) returns bigint
    language sql security definer
    set search_path = pg_catalog, pg_temp
as $$
    with expired as (
        select k.key from outbox.idempotency_keys k where k.expires_at <= clock_timestamp()
        order by k.expires_at limit max_rows for update skip locked
    ), removed as (
        delete from outbox.idempotency_keys k using expired where k.key = expired.key returning k.key
    )
    select count(*) from removed
$$;
comment on function outbox.expire_idempotency_keys(integer) is 'Deletes expired idempotency keys, at most so many, and returns how many.';

create function outbox.compact_outcome_counts(keep interval) returns bigint
    language sql security definer
    set search_path = pg_catalog, pg_temp
as $$
    -- One row per minute once no settle adds to it, per hour after two days, none after the retention.
    with removed as (
        delete from outbox.outcome_counts c
        using (
            select o.destination_id, o.minute,
                   case when o.minute < date_trunc('hour', now()) - interval '2 days' then date_trunc('hour', o.minute) else o.minute end as merged
            from outbox.outcome_counts o
            where o.minute < now() - interval '5 minutes'
            group by o.destination_id, o.minute
            having count(*) > 1 or o.minute < date_trunc('hour', now()) - interval '2 days' and o.minute <> date_trunc('hour', o.minute)
                or o.minute < outbox.check_retention(keep)) old
        where c.destination_id = old.destination_id and c.minute = old.minute
        returning c.*, old.merged
    ), merged as (
        insert into outbox.outcome_counts (destination_id, minute, delivered, retried, died, latency_sum_ms, latency_max_ms)
        select r.destination_id, r.merged, sum(r.delivered), sum(r.retried), sum(r.died), sum(r.latency_sum_ms), max(r.latency_max_ms)
        from removed r where r.minute >= outbox.check_retention(keep)
        group by r.destination_id, r.merged
        returning destination_id
    )
    select (select count(*) from removed) - (select count(*) from merged)
$$;
comment on function outbox.compact_outcome_counts(interval) is
    'Merges the counts of past minutes, of hours after two days, and drops them after the retention; returns how many rows fewer there are.';

create function outbox.forget_relays(keep interval) returns bigint
    language sql security definer
    set search_path = pg_catalog, pg_temp
as $$
    with removed as (
        delete from outbox.relays r where r.heartbeat_at < outbox.check_retention(keep) returning r.id
    )
    select count(*) from removed
$$;
comment on function outbox.forget_relays(interval) is 'Deletes relays that were last alive before the retention.';

-- ------------------------------------------------------------------ the first partitions, and rights

select outbox.create_partitions(), outbox.cover_now('events'), outbox.cover_now('attempts');

revoke execute on all functions in schema outbox from public;
