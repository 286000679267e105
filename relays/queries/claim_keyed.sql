-- Claims due deliveries where keys are in use: those without a key, the heads of keys, and behind each head a run of
-- its contiguous followers. Also claims suspects (the delivery during which a relay died), one at a time.
-- Keeps: key-order (only the oldest open delivery of a key, behind the fence of fence_keys.sql; a dead letter keeps
-- its key closed where on_dead is block), lease-token, flat (scans at most scan_limit rows behind the mark and says how
-- far it came: blocked rows are many where one key is hot).
-- Index: deliveries_due_idx, deliveries_key_idx, dead_letters_key_idx.
with asked as (
    select destination_id, room, lease_seconds, low_due_at, low_id, high_due_at, blocks, run_limit
    from unnest(
        %(destination_ids)s::integer[], %(rooms)s::integer[], %(lease_seconds)s::double precision[],
        %(low_due_ats)s::timestamptz[], %(low_ids)s::bigint[], %(high_due_ats)s::timestamptz[], %(blocks)s::boolean[],
        %(run_limits)s::integer[])
        as asked (destination_id, room, lease_seconds, low_due_at, low_id, high_due_at, blocks, run_limit)),
going_on as (
    select destination_id, key
    from unnest(%(key_destination_ids)s::integer[], %(keys)s::text[]) as going_on (destination_id, key)),
-- not locked yet: most may be blocked
scanned as materialized (
    select asked.destination_id, s.due_at, s.id, s.key, true as is_scanned
    from asked
    cross join lateral (
        select d.due_at, d.id, d.key
        from outbox.deliveries d
        where d.destination_id = asked.destination_id
          and (d.due_at, d.id) > (asked.low_due_at, asked.low_id)
          and d.due_at <= least(now(), asked.high_due_at)
          and d.lease_token is null
          and (d.interruptions > 0) = %(suspects)s
        order by d.due_at, d.id
        limit %(scan_limit)s) s
    union all
    -- keys whose last run was finished go on at once, wherever the mark is
    select asked.destination_id, s.due_at, s.id, going_on.key, false as is_scanned
    from going_on
    join asked on asked.destination_id = going_on.destination_id
    cross join lateral (
        select d.due_at, d.id, d.lease_token, d.interruptions
        from outbox.deliveries d
        where d.destination_id = going_on.destination_id and d.key = going_on.key
        order by d.id
        limit 1) s
    where s.due_at <= now() and s.lease_token is null and (s.interruptions > 0) = %(suspects)s),
candidates as materialized (
    select destination_id, due_at, id, key, bool_or(is_scanned) as is_scanned, bool_or(not is_scanned) as is_going_on
    from scanned
    group by destination_id, due_at, id, key),
weighed as materialized (
    select c.destination_id, c.due_at, c.id, c.key, c.is_scanned, c.is_going_on,
        c.key is null
        or not exists (
            select from outbox.deliveries older
            where older.destination_id = c.destination_id and older.key = c.key and older.id < c.id)
        and not (asked.blocks and exists (
            select from outbox.dead_letters dead
            where dead.destination_id = c.destination_id and dead.key = c.key and dead.delivery_id < c.id)) as is_head,
        c.key is null
        or c.id <= %(frontier)s and outbox.key_slot(c.key) = any (%(free_slots)s::integer[]) as is_fenced
    from candidates c
    join asked on asked.destination_id = c.destination_id),
ranked as materialized (
    select w.destination_id, w.due_at, w.id, w.key, w.is_scanned,
        row_number() over (partition by w.destination_id order by w.is_going_on desc, w.due_at, w.id) as place
    from weighed w
    where w.is_head and w.is_fenced),
heads as materialized (
    select asked.destination_id, asked.lease_seconds, asked.run_limit, d.due_at, d.id, d.key, ranked.is_scanned
    from ranked
    join asked on asked.destination_id = ranked.destination_id and ranked.place <= asked.room
    join outbox.deliveries d
        on d.destination_id = ranked.destination_id and d.due_at = ranked.due_at and d.id = ranked.id
    where d.lease_token is null
    for update of d skip locked),
followers as materialized (
    select heads.id as head_id, heads.destination_id, heads.lease_seconds, f.due_at, f.id,
        row_number() over run as place,
        bool_and(f.lease_token is null and f.interruptions = 0 and f.due_at <= now()) over run as is_reachable
    from heads
    cross join lateral (
        select d.due_at, d.id, d.lease_token, d.interruptions
        from outbox.deliveries d
        where d.destination_id = heads.destination_id and d.key = heads.key
          and d.id > heads.id and d.id <= %(frontier)s
        order by d.id
        limit heads.run_limit) f
    where heads.key is not null and not %(suspects)s
    window run as (partition by heads.id order by f.id)),
locked as materialized (
    select followers.head_id, followers.destination_id, followers.lease_seconds, d.due_at, d.id, followers.place
    from followers
    join outbox.deliveries d
        on d.destination_id = followers.destination_id and d.due_at = followers.due_at and d.id = followers.id
    where followers.is_reachable and d.lease_token is null
    for update of d skip locked),
-- a run ends before the first follower that somebody else holds
runs as (
    select head_id, destination_id, lease_seconds, due_at, id
    from (
        select l.head_id, l.destination_id, l.lease_seconds, l.due_at, l.id, l.place,
            row_number() over (partition by l.head_id order by l.place) as locked_place
        from locked l) l
    where place = locked_place),
due as materialized (
    select id as head_id, destination_id, lease_seconds, due_at, id, is_scanned from heads
    union all
    select head_id, destination_id, lease_seconds, due_at, id, false from runs),
fresh as materialized (
    select nextval('outbox.lease_token_seq') as lease_token),
leased as (
    update outbox.deliveries d
    set lease_token = fresh.lease_token,
        leased_until = now() + make_interval(secs => due.lease_seconds),
        attempt = d.attempt + 1,
        relay_id = %(relay_id)s
    from due, fresh
    where d.destination_id = due.destination_id and d.due_at = due.due_at and d.id = due.id
    returning d.id, d.event_id, d.destination_id, d.attempt, d.interruptions, d.key, due.head_id,
        case when due.is_scanned then d.due_at end as scanned_due_at, d.recorded_at, d.lease_token, d.recipient)
select leased.id, leased.event_id::text, leased.destination_id, leased.attempt, leased.interruptions,
    leased.key, leased.head_id, leased.scanned_due_at, leased.recorded_at, leased.lease_token, leased.recipient,
    e.type, e.payload::json as payload, e.headers::json as headers
from leased
join outbox.events e on e.id = leased.event_id
union all
-- per destination: how many heads the fence held back, and where the scan was cut (a cut needs scan_limit rows)
select null, null, w.destination_id, count(*) filter (where w.is_head and not w.is_fenced)::integer, null, null,
    case when count(*) filter (where w.is_scanned) >= %(scan_limit)s
        then (array_agg(w.id order by w.due_at desc, w.id desc) filter (where w.is_scanned))[1] end,
    case when count(*) filter (where w.is_scanned) >= %(scan_limit)s
        then max(w.due_at) filter (where w.is_scanned) end,
    null, null, null, null, null, null
from weighed w
group by w.destination_id
having count(*) filter (where w.is_scanned) >= %(scan_limit)s
    or count(*) filter (where w.is_head and not w.is_fenced) > 0
