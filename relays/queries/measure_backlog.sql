-- Measures what is due and what is dead of each destination, from its safe mark on: nothing open lies before that, so
-- a scrape does not walk the index entries of finished deliveries (promise flat). Counts end at count_limit.
-- Index: deliveries_due_idx, dead_letters_destination_idx.
select asked.destination_id,
    extract(epoch from now() - oldest.due_at)::double precision as oldest_due_seconds,
    due.rows as due,
    dead.rows as dead
from unnest(%(destination_ids)s::integer[], %(safe_due_ats)s::timestamptz[], %(safe_ids)s::bigint[])
    as asked (destination_id, safe_due_at, safe_id)
left join lateral (
    select d.due_at
    from outbox.deliveries d
    where d.destination_id = asked.destination_id and (d.due_at, d.id) > (asked.safe_due_at, asked.safe_id)
      and d.due_at <= now()
      and (d.leased_until is null or d.leased_until < now())
    order by d.due_at, d.id
    limit 1) oldest on true
cross join lateral (
    select count(*) as rows
    from (
        select
        from outbox.deliveries d
        where d.destination_id = asked.destination_id and (d.due_at, d.id) > (asked.safe_due_at, asked.safe_id)
          and d.due_at <= now()
        limit %(count_limit)s) counted) due
cross join lateral (
    select count(*) as rows
    from (
        select
        from outbox.dead_letters x
        where x.destination_id = asked.destination_id
        limit %(count_limit)s) counted) dead
