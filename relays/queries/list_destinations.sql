-- Lists all destinations that are not removed.
select id, name, sink, event_types, settings, policy, state::text as state, state_reason, state_changed_at, held_until,
    extract(epoch from held_until - clock_timestamp())::double precision as held_seconds, version
from outbox.destinations
where removed_at is null
order by id
