-- Lists destinations with what happened in the last hour and how many dead letters each has; removed ones while
-- something of theirs is left. No settings: they may hold secrets.
-- Index: outcome_counts_minute_idx, dead_letters_destination_idx.
with recent as (
    select destination_id, sum(delivered) as delivered, sum(retried + died) as failed
    from outbox.outcome_counts
    where minute > now() - interval '1 hour'
    group by destination_id),
dead as (
    select destination_id, count(*) as dead
    from outbox.dead_states
    group by destination_id)
select d.id, d.name, d.sink, d.event_types, d.state::text as state, d.state_reason, d.state_changed_at,
    case when d.held_until > now() then d.held_until end as held_until, d.removed_at,
    coalesce(dead.dead, 0)::bigint as dead,
    coalesce(recent.delivered, 0)::bigint as delivered_last_hour,
    coalesce(recent.failed, 0)::bigint as failed_last_hour
from outbox.destination_states d
left join recent on recent.destination_id = d.id
left join dead on dead.destination_id = d.id
where d.removed_at is null or dead.dead > 0
    or exists (select from outbox.open_states o where o.destination_id = d.id)
order by d.name, d.id
