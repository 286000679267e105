-- Says what became so far of deliveries set going since a moment: delivered, failed at least once, still untried.
-- Index: attempts_event_idx of the partitions since that moment.
select
    count(*) filter (where outcome = 'delivered')::integer as delivered,
    count(*) filter (where outcome <> 'delivered')::integer as failed,
    cardinality(%(ids)s::bigint[]) - count(*)::integer as untried
from (
    select distinct on (a.delivery_id) a.delivery_id, a.outcome
    from outbox.attempts a
    where a.event_id = any (%(event_ids)s::uuid[]) and a.delivery_id = any (%(ids)s::bigint[])
      and a.started_at >= %(since)s
      and a.outcome in ('delivered', 'retry', 'dead', 'interrupted')
    order by a.delivery_id, a.outcome = 'delivered' desc) latest
