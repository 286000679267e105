-- Says what became so far of deliveries set going since a moment: delivered, failed at least once, still untried.
-- Index: attempts partitions since that moment.
select
    count(*) filter (where outcome = 'delivered') as delivered,
    count(*) filter (where outcome in ('retry', 'dead', 'interrupted')) as failed,
    %(total)s::integer - count(*) as untried
from (
    select distinct on (a.delivery_id) a.delivery_id, a.outcome
    from outbox.attempts a
    where a.delivery_id = any (%(ids)s::bigint[]) and a.started_at >= %(since)s
      and a.outcome in ('delivered', 'retry', 'dead', 'interrupted')
    order by a.delivery_id, a.outcome = 'delivered' desc) latest
