-- Creates the upkeep of the tables: daily partitions ahead, retention behind, expiry of keys, compaction of counts.
-- Locks: none that an application could wait for, everything here is new. Deploy before the code. Breaking: no.
--
-- What a relay calls is SECURITY DEFINER, so that it needs no ownership. Each call is one transaction of bounded locks:
-- lock_timeout is 150 ms, as recorders queue behind a lock that waits. A call that does not get its lock raises 55P03
-- and has changed nothing; outbox/prune.py tries again later. Days are days of UTC.

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
    with partitions as (
        select p.relname as parent, c.relname as name,
               regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM [(]''(.*)''[)] TO [(]''(.*)''[)]') as edges
        from pg_class p
        join pg_inherits i on i.inhparent = p.oid
        join pg_class c on c.oid = i.inhrelid
        where p.relnamespace = 'outbox'::regnamespace and p.relkind = 'p')
    select parent, name,
           case parent when 'events' then outbox.uuid_moment(edges[1]::uuid) else edges[1]::timestamptz end,
           case parent when 'events' then outbox.uuid_moment(edges[2]::uuid) else edges[2]::timestamptz end,
           edges is null
    from partitions
    order by parent, 3 nulls last
$$;
comment on function outbox.list_partitions() is
    'The partitions of outbox.events and outbox.attempts with their bounds as times; the default has none.';

create view outbox.partitions as select * from outbox.list_partitions();
comment on view outbox.partitions is
    'The partitions of outbox.events and outbox.attempts with their bounds as times; the default has none.';

create function outbox.partition_column(parent text) returns text
    language sql immutable parallel safe
    return case parent when 'events' then 'id' when 'attempts' then 'started_at' end;
comment on function outbox.partition_column(text) is 'What a table is partitioned by.';

create function outbox.partition_edge(parent text, moment timestamptz) returns text
    language sql stable parallel safe
    return case parent
        when 'events' then outbox.uuid_floor(moment)::text
        else to_char(moment at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US"Z"')
    end;
comment on function outbox.partition_edge(text, timestamptz) is 'The moment as a bound of a partition, as a literal.';

create function outbox.range_check(parent text, lower_bound timestamptz, upper_bound timestamptz) returns text
    language sql stable parallel safe
    return format('%1$I >= %2$L and %1$I < %3$L', outbox.partition_column(parent),
        outbox.partition_edge(parent, lower_bound), outbox.partition_edge(parent, upper_bound));
comment on function outbox.range_check(text, timestamptz, timestamptz) is 'The condition of the rows between two bounds.';

create function outbox.partition_name(parent text, lower_bound timestamptz) returns text
    language sql stable parallel safe
    return parent || to_char(lower_bound at time zone 'UTC', '_YYYY_MM_DD');
comment on function outbox.partition_name(text, timestamptz) is 'A partition is named for its first day.';

-- ------------------------------------------------------------------ tables that become partitions

create function outbox.create_partition_table(parent text, name text, about text) returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    execute format('create table outbox.%I (like outbox.%I including defaults including constraints including indexes)',
        name, parent);
    execute format('comment on table outbox.%I is %L', name, about);
end
$$;
comment on function outbox.create_partition_table(text, text, text) is 'Creates a table that can be attached to another.';

create function outbox.attach_range(
    parent text, name text, lower_bound timestamptz, upper_bound timestamptz) returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    execute format('alter table outbox.%I attach partition outbox.%I for values from (%L) to (%L)', parent, name,
        outbox.partition_edge(parent, lower_bound), outbox.partition_edge(parent, upper_bound));
end
$$;
comment on function outbox.attach_range(text, text, timestamptz, timestamptz) is
    'Attaches a table as the partition between two bounds.';

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
        execute format('alter index outbox.%I rename to %I',
            index_name, new_name || substr(index_name, length(old_name) + 1));
    end loop;
end
$$;
comment on function outbox.rename_partition(text, text) is
    'Renames a detached partition and its indexes, so that the name is free again.';

create function outbox.default_holds(
    parent text, lower_bound timestamptz, upper_bound timestamptz) returns boolean
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    holds boolean;
begin
    execute format('select exists (select from outbox.%I where %s)', parent || '_default',
        outbox.range_check(parent, lower_bound, upper_bound)) into holds;
    return holds;
end
$$;
comment on function outbox.default_holds(text, timestamptz, timestamptz) is
    'Whether the default partition has rows of this time.';

create function outbox.is_large_default(parent text) returns boolean
    language sql stable
    set search_path = pg_catalog, pg_temp
as $$
    select pg_relation_size(format('outbox.%I', parent || '_default')::regclass) > 33554432
$$;
comment on function outbox.is_large_default(text) is
    'Whether attaching a partition, which makes PostgreSQL look at each row of the default one, would take too long (32 MiB).';

-- ------------------------------------------------------------------ partitions ahead

create function outbox.missing_days(first_moment timestamptz, last_moment timestamptz)
    returns table (parent text, lower_bound timestamptz, upper_bound timestamptz)
    language sql stable
    set search_path = pg_catalog, pg_temp
    set timezone = 'UTC'
as $$
    select p.parent, d.day, d.day + interval '1 day'
    from (values ('attempts'), ('events')) p (parent)
    cross join generate_series(date_trunc('day', first_moment), last_moment, interval '1 day') d (day)
    where not exists (
        select from outbox.list_partitions() l
        where l.parent = p.parent and l.lower_bound < d.day + interval '1 day' and l.upper_bound > d.day)
    order by d.day, p.parent
$$;
comment on function outbox.missing_days(timestamptz, timestamptz) is 'The days that no partition covers.';

create function outbox.attach_partition(parent text, lower_bound timestamptz, upper_bound timestamptz) returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    name text := outbox.partition_name(parent, lower_bound);
begin
    -- Created first and attached then: that locks out nobody who writes to other partitions, as CREATE … PARTITION OF does.
    perform outbox.create_partition_table(parent, name,
        format('Rows of outbox.%s from %s (UTC) on.', parent, to_char(lower_bound at time zone 'UTC', 'YYYY-MM-DD')));
    perform outbox.attach_range(parent, name, lower_bound, upper_bound);
end
$$;
comment on function outbox.attach_partition(text, timestamptz, timestamptz) is
    'Adds an empty partition, named for its first day.';

create function outbox.create_partitions(ahead_days integer default 7) returns integer
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '150ms'
as $$
declare
    missing record;
    made integer := 0;
begin
    if ahead_days is null or ahead_days not between 1 and 366 then
        perform outbox.refuse('OB008 ahead_days: ' || coalesce(ahead_days::text, 'null')
            || ' is not a number of days from 1 to 366');
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
as $$
declare
    missing record;
    made integer := 0;
begin
    perform pg_advisory_xact_lock(1330205763, 0);
    for missing in
        select m.* from outbox.missing_days(clock_timestamp(), clock_timestamp() + interval '1 hour') m
        where m.parent = cover_now.parent
    loop
        -- A recorder that has chosen the default partition and waits for it while this attaches would fail: its row
        -- belongs elsewhere then. So nobody may be on the way: this needs the lock on the whole table.
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
    'Creates the partition of today (in the last hour, of tomorrow) if it is missing and the default has none of its rows.';

-- ------------------------------------------------------------------ rows in the default partition

-- No row moves: the default partition itself becomes the partition of the gap it filled, and an empty one takes its place.
-- Attaching makes PostgreSQL look at each row under a lock that recorders wait for. With a validated check of the bounds
-- it does not, so a large default partition gets one first: constrain_default, then validate_default in a transaction of
-- its own, which blocks nobody. That check ends eight days ahead, so it must not outlive an interrupted adoption:
-- outbox/prune.py begins with release_default.

create function outbox.default_gap(parent text, out lower_bound timestamptz, out upper_bound timestamptz)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    set timezone = 'UTC'
as $$
declare
    lowest timestamptz;
    highest timestamptz;
begin
    if parent = 'events' then  -- ordered, as there is no min(uuid)
        lowest := outbox.uuid_moment((select e.id from outbox.events_default e order by e.id limit 1));
        highest := outbox.uuid_moment((select e.id from outbox.events_default e order by e.id desc limit 1));
    elsif parent = 'attempts' then
        select min(a.started_at), max(a.started_at) into lowest, highest from outbox.attempts_default a;
    else
        perform outbox.refuse('OB008 parent: ' || to_json(left(parent, 100)) || ' is not events or attempts');
    end if;
    select coalesce(max(l.upper_bound), '-infinity') into lower_bound
        from outbox.list_partitions() l where l.parent = default_gap.parent and l.lower_bound <= lowest;
    select coalesce(min(l.lower_bound), 'infinity') into upper_bound
        from outbox.list_partitions() l where l.parent = default_gap.parent and l.lower_bound > lowest;
    lower_bound := greatest(lower_bound, date_trunc('day', lowest));
    upper_bound := least(upper_bound, date_trunc('day', clock_timestamp()) + interval '8 days');
    if lowest is null or highest >= upper_bound then
        lower_bound := null;
        upper_bound := null;
    end if;
end
$$;
comment on function outbox.default_gap(text) is
    'The gap between partitions that the rows of the default one fill, up to eight days ahead; null if there are none, or in several gaps.';

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
    perform outbox.release_default(parent);
    execute format('alter table outbox.%I add constraint default_fills_one_gap check (%s) not valid',
        parent || '_default', outbox.range_check(parent, gap.lower_bound, gap.upper_bound));
    return true;
end
$$;
comment on function outbox.constrain_default(text) is
    'Adds the check that spares outbox.adopt_default its scan. False if the rows fill no single gap.';

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
        where c.conrelid = to_regclass(format('outbox.%I', parent || '_default'))
          and c.conname = 'default_fills_one_gap') then
        execute format('alter table outbox.%I drop constraint default_fills_one_gap', parent || '_default');
    end if;
end
$$;
comment on function outbox.release_default(text) is
    'Removes that check again; a default partition must take everything.';

create function outbox.adopt_default(parent text) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '150ms'
    set timezone = 'UTC'
as $$
declare
    default_name text := parent || '_default';
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
        where c.conrelid = format('outbox.%I', default_name)::regclass
          and c.conname = 'default_fills_one_gap' and c.convalidated) then
        if outbox.is_large_default(parent) then
            return false;
        end if;
        gap.upper_bound := least(gap.upper_bound, date_trunc('day', clock_timestamp()) + interval '1 day');
    end if;
    name := outbox.partition_name(parent, gap.lower_bound);
    if to_regclass(format('outbox.%I', name)) is not null then
        name := name || to_char(gap.lower_bound, '_HH24_MI_SS');
    end if;
    execute format('alter table outbox.%I detach partition outbox.%I', parent, default_name);
    perform outbox.rename_partition(default_name, name);
    perform outbox.attach_range(parent, name, gap.lower_bound, gap.upper_bound);
    execute format('alter table outbox.%I drop constraint if exists default_fills_one_gap', name);
    perform outbox.create_partition_table(parent, default_name,
        'Takes what no other partition takes: a missing partition never fails a transaction.');
    execute format('alter table outbox.%I attach partition outbox.%I default', parent, default_name);
    return true;
end
$$;
comment on function outbox.adopt_default(text) is
    'Makes the default partition that of the gap its rows fill, and puts an empty one in its place. False if it is empty, its rows fill several gaps, or it is large and has no validated check.';

-- ------------------------------------------------------------------ retention

create function outbox.check_retention(keep interval) returns timestamptz
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if keep is null or keep < interval '1 day' or keep > interval '100 years' then
        perform outbox.refuse('OB008 keep: ' || coalesce(keep::text, 'null')
            || ' is not a time from 1 day to 100 years');
    end if;
    return clock_timestamp() - keep;
end
$$;
comment on function outbox.check_retention(interval) is 'The moment before which finished rows go.';

create function outbox.unfinished_events(
    lower_bound timestamptz, upper_bound timestamptz, since timestamptz) returns setof uuid
    language sql stable
    set search_path = pg_catalog, pg_temp
as $$
    -- By the index on event_id each: the few that are left, never the many that are done.
    with bounds as (
        select outbox.uuid_floor(lower_bound) as lowest, outbox.uuid_floor(upper_bound) as highest)
    select d.event_id from bounds b join outbox.deliveries d on d.event_id >= b.lowest and d.event_id < b.highest
    union
    select l.event_id from bounds b join outbox.dead_letters l on l.event_id >= b.lowest and l.event_id < b.highest
    union
    select a.event_id from bounds b join outbox.attempts a on a.event_id >= b.lowest and a.event_id < b.highest
    where a.started_at >= since
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
            case (partition).parent when 'events' then (partition).lower_bound else '1970-01-01 00:00:00+00' end,
            (partition).upper_bound,
            case (partition).parent when 'events' then since else 'infinity' end)
        limit 20001)
$$;
comment on function outbox.spared_events(outbox.partitions, timestamptz) is
    'Events whose rows retention spares in a partition; 20,001 stand for too many.';

create function outbox.spared_rows(
    partition outbox.partitions, events uuid[], out spared bigint, out others boolean)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    execute format('select count(*) from outbox.%I where %I = any ($1)', (partition).name,
        case (partition).parent when 'events' then 'id' else 'event_id' end) into spared using events;
    execute format('select count(*) > %1$s from (select from outbox.%2$I limit %1$s + 1) few',
        spared, (partition).name) into others;
end
$$;
comment on function outbox.spared_rows(outbox.partitions, uuid[]) is
    'How many rows of a partition belong to these events, and whether it has others.';

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
        perform outbox.refuse('OB008 partition: ' || to_json(left(partition, 100))
            || ' is none, or holds what is to be kept');
    end if;
    rows := outbox.spared_rows(old, outbox.spared_events(old, since));
    if not rows.others then
        return rows.spared;
    end if;
    if cardinality(outbox.spared_events(old, since)) > 20000 then
        return null;
    end if;
    -- Looked up again under the lock, or a replay in between would lose its event. Recorders never touch this
    -- partition; relays wait while at most 20,000 events are written back.
    execute format('lock table outbox.%I in access exclusive mode', partition);
    execute format('create temp table outbox_spared on commit drop as select * from outbox.%I where %I = any ($1)',
        partition, case old.parent when 'events' then 'id' else 'event_id' end) using outbox.spared_events(old, since);
    execute format('truncate outbox.%I', partition);
    execute format('insert into outbox.%I select * from pg_temp.outbox_spared', partition);
    get diagnostics rows.spared = row_count;
    drop table pg_temp.outbox_spared;
    return rows.spared;
end
$$;
comment on function outbox.purge_partition(text, interval) is
    'Empties a partition whose days are over, but for what is unfinished, and returns how many rows stay. Null: more than 20,000 events are unfinished, nothing was done.';

create function outbox.purged_streaks(parent text, since timestamptz)
    returns table (names text[], lower_bound timestamptz, upper_bound timestamptz)
    language sql stable
    set search_path = pg_catalog, pg_temp
as $$
    select array_agg(s.name order by s.lower_bound), min(s.lower_bound), max(s.upper_bound)
    from (
        select t.*, count(*) filter (where t.starts) over (order by t.lower_bound) as streak
        from (
            select l.*, l.lower_bound is distinct from lag(l.upper_bound) over (order by l.lower_bound) as starts
            from outbox.list_partitions() l
            where l.parent = purged_streaks.parent and l.upper_bound <= since
              -- What was kept whole is large, and ends a streak.
              and pg_table_size(format('outbox.%I', l.name)::regclass) <= 268435456) t) s
    group by s.streak
$$;
comment on function outbox.purged_streaks(text, timestamptz) is 'Purged partitions that touch each other.';

create function outbox.fold_partitions(parent text, keep interval) returns integer
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '150ms'
as $$
declare
    since timestamptz := outbox.check_retention(keep);
    folding text := parent || '_folding';
    streak record;
    old text;
    filled boolean;
    gone integer := 0;
begin
    perform pg_advisory_xact_lock(1330205763, 0);
    if outbox.is_large_default(parent) then
        return 0;  -- outbox.adopt_default comes first
    end if;
    for streak in select s.* from outbox.purged_streaks(parent, since) s loop
        execute 'select ' || (
            select string_agg(format('exists (select from outbox.%I)', n), ' or ') from unnest(streak.names) n)
            into filled;
        continue when filled and cardinality(streak.names) = 1;
        if filled then
            perform outbox.create_partition_table(parent, folding, 'What is unfinished of days whose retention is over.');
            -- Spares attaching a scan under the lock.
            execute format('alter table outbox.%I add constraint folding_bounds check (%s)', folding,
                outbox.range_check(parent, streak.lower_bound, streak.upper_bound));
            foreach old in array streak.names loop
                execute format('insert into outbox.%I select * from outbox.%I', folding, old);
            end loop;
        end if;
        execute format('lock table outbox.%I in access exclusive mode', parent);
        foreach old in array streak.names loop
            execute format('drop table outbox.%I', old);
            gone := gone + 1;
        end loop;
        if filled then
            perform outbox.rename_partition(folding, streak.names[1]);
            perform outbox.attach_range(parent, streak.names[1], streak.lower_bound, streak.upper_bound);
            execute format('alter table outbox.%I drop constraint folding_bounds', streak.names[1]);
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
    beginning timestamptz := '1970-01-01 00:00:00+00';
    removed bigint := 0;
begin
    if parent = 'events' then
        delete from outbox.events_default where id in (
            select e.id from outbox.events_default e
            where e.id < outbox.uuid_floor(since)
              and e.id not in (select outbox.unfinished_events(beginning, since, since))
            limit max_rows);
    elsif parent = 'attempts' then
        delete from outbox.attempts_default where ctid = any (array(
            select a.ctid from outbox.attempts_default a
            where a.started_at < since
              and a.event_id not in (select outbox.unfinished_events(beginning, since, 'infinity'))
            limit max_rows));
    else
        perform outbox.refuse('OB008 parent: ' || to_json(left(parent, 100)) || ' is not events or attempts');
    end if;
    get diagnostics removed = row_count;
    return removed;
end
$$;
comment on function outbox.purge_default(text, interval, integer) is
    'Deletes finished rows of the default partition that outlived the retention, at most so many, and returns how many.';

-- ------------------------------------------------------------------ expiry and compaction

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
comment on function outbox.expire_idempotency_keys(integer) is
    'Deletes expired idempotency keys, at most so many, and returns how many.';

create function outbox.compact_outcome_counts(keep interval) returns bigint
    language sql security definer
    set search_path = pg_catalog, pg_temp
as $$
    -- One row per minute once no settle adds to it, per hour after two days, none after the retention.
    with mergeable as (
        select c.destination_id, c.minute,
               case when c.minute < date_trunc('hour', now()) - interval '2 days'
                    then date_trunc('hour', c.minute) else c.minute end as merged
        from outbox.outcome_counts c
        where c.minute < now() - interval '5 minutes'
        group by c.destination_id, c.minute
        having count(*) > 1
            or c.minute < date_trunc('hour', now()) - interval '2 days' and c.minute <> date_trunc('hour', c.minute)
            or c.minute < outbox.check_retention(keep)
    ), removed as (
        delete from outbox.outcome_counts c
        using mergeable m
        where c.destination_id = m.destination_id and c.minute = m.minute
        returning c.*, m.merged
    ), added as (
        insert into outbox.outcome_counts (
            destination_id, minute, delivered, retried, died, latency_sum_ms, latency_max_ms)
        select r.destination_id, r.merged,
               sum(r.delivered), sum(r.retried), sum(r.died), sum(r.latency_sum_ms), max(r.latency_max_ms)
        from removed r
        where r.minute >= outbox.check_retention(keep)
        group by r.destination_id, r.merged
        returning destination_id
    )
    select (select count(*) from removed) - (select count(*) from added)
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
