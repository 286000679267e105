-- Lists all destinations that are not removed.
select id, name, sink, event_types, settings, policy, state::text as state, state_reason, state_changed_at, held_until,
    extract(epoch from held_until - clock_timestamp())::double precision as held_seconds,
    case when state = 'active' and state_changed_at > created_at + interval '1 second'
        then extract(epoch from clock_timestamp() - state_changed_at)::double precision end as returned_seconds, version
from outbox.destinations
where removed_at is null
order by id
