-- Counts the open deliveries of every destination by state, in two passes over the table that can run in parallel.
-- Precedence: leased, blocked, scheduled, waiting; whether they are held is the destination's state, judged by the caller.
-- A keyed delivery is blocked unless it is the oldest open one of its key, and, where on_dead is block, while a dead
-- letter keeps its key closed. The head of a key is found as the smallest id with its own flags packed below it.
-- Index: none, a sequential scan; keyed rows are grouped once.
with open as not materialized (
    select d.destination_id, d.key, d.id, d.due_at,
        coalesce(d.leased_until >= now(), false) as is_leased,
        d.leased_until < now() as is_lapsed,
        d.due_at > now() as is_later
    from outbox.open_states d),
keyless as (
    select destination_id,
        count(*) filter (where is_leased) as leased,
        count(*) filter (where is_lapsed) as lapsed,
        0::bigint as blocked,
        count(*) filter (where is_later and not is_leased) as scheduled,
        count(*) filter (where not is_later and not is_leased) as waiting,
        min(due_at) filter (where not is_later and not is_leased) as oldest_due_at
    from open
    where key is null
    group by destination_id),
keys as (
    select destination_id, key,
        count(*) filter (where is_leased) as leased,
        count(*) filter (where is_lapsed) as lapsed,
        count(*) filter (where not is_leased) as idle,
        min(id * 4 + case when is_leased then 2 else 0 end + case when is_later then 1 else 0 end) as head,
        min(due_at) filter (where not is_later and not is_leased) as oldest_due_at
    from open
    where key is not null
    group by destination_id, key),
headed as (
    select k.destination_id, k.leased, k.lapsed, k.idle, k.oldest_due_at,
        (k.head & 2) > 0 as is_leased, (k.head & 1) > 0 as is_later,
        coalesce(d.policy ->> 'on_dead' = 'block', false) and exists (
            select from outbox.dead_states dead
            where dead.destination_id = k.destination_id and dead.key = k.key and dead.delivery_id < k.head / 4) as is_closed
    from keys k
    join outbox.destination_states d on d.id = k.destination_id),
keyed as (
    select destination_id, sum(leased) as leased, sum(lapsed) as lapsed,
        sum(idle - case when is_leased or is_closed then 0 else 1 end) as blocked,
        count(*) filter (where is_later and not is_leased and not is_closed) as scheduled,
        count(*) filter (where not is_later and not is_leased and not is_closed) as waiting,
        min(oldest_due_at) filter (where not is_later and not is_leased and not is_closed) as oldest_due_at
    from headed
    group by destination_id)
select destination_id, sum(leased)::bigint as leased, sum(lapsed)::bigint as lapsed, sum(blocked)::bigint as blocked,
    sum(scheduled)::bigint as scheduled, sum(waiting)::bigint as waiting,
    extract(epoch from now() - min(oldest_due_at))::double precision as oldest_waiting_seconds
from (select * from keyless union all select * from keyed) counted
group by destination_id
