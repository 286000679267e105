-- Lists the destinations that are not removed, by name.
select id, name, sink, event_types, settings, policy, state::text as state, state_reason, state_changed_at, held_until,
    version
from outbox.destinations
where removed_at is null
order by name
