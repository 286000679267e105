-- Finds, per destination, the first open delivery from the safe mark on, the next one not yet due, and whether keys and
-- suspects (a relay died during their last attempt) are there.
-- Index: deliveries_due_idx, three times; deliveries_key_idx.
select asked.destination_id, first.due_at as first_due_at, first.id as first_id,
    extract(epoch from later.due_at - clock_timestamp())::double precision as next_due_seconds,
    exists (
        select from outbox.deliveries d
        where d.destination_id = asked.destination_id and d.key is not null) as has_keys,
    exists (
        select from outbox.deliveries d
        where d.destination_id = asked.destination_id
          and (d.due_at, d.id) > (asked.safe_due_at, asked.safe_id)
          and d.due_at <= least(now(), asked.high_due_at)
          and d.interruptions > 0
          and d.lease_token is null) as has_suspects
from unnest(
    %(destination_ids)s::integer[], %(safe_due_ats)s::timestamptz[], %(safe_ids)s::bigint[], %(high_due_ats)s::timestamptz[])
    as asked (destination_id, safe_due_at, safe_id, high_due_at)
left join lateral (
    select d.due_at, d.id
    from outbox.deliveries d
    where d.destination_id = asked.destination_id and (d.due_at, d.id) > (asked.safe_due_at, asked.safe_id)
    order by d.due_at, d.id
    limit 1) first on true
left join lateral (
    select d.due_at
    from outbox.deliveries d
    where d.destination_id = asked.destination_id and d.due_at > now()
    order by d.due_at
    limit 1) later on true
