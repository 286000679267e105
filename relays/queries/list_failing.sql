-- Finds active destinations that tried for some time and delivered nothing since. Only counts are read, of a bounded
-- time, so it costs nothing that grows with the history; hours count from their beginning, so "since" may be up to an
-- hour early, and never reaches back behind the last delivery or the last change of state.
-- Index: outcome_counts_minute_idx.
with counted as materialized (
    select destination_id, minute, sum(delivered) as delivered, sum(retried + died) as failed
    from outbox.outcome_counts
    where minute > now() - make_interval(secs => %(looked_back_seconds)s)
    group by destination_id, minute),
latest as (
    select destination_id, max(minute) filter (where delivered > 0) as delivered_at
    from counted
    group by destination_id)
select d.id, d.name, extract(epoch from now() - min(c.minute))::double precision as failing_seconds,
    sum(c.failed)::bigint as failures
from outbox.destinations d
join latest l on l.destination_id = d.id
join counted c on c.destination_id = d.id and c.failed > 0
    and c.minute > greatest(d.state_changed_at, coalesce(l.delivered_at, '-infinity'))
where d.state = 'active' and d.removed_at is null
group by d.id
having min(c.minute) <= now() - make_interval(secs => %(failing_seconds)s)
order by d.id
