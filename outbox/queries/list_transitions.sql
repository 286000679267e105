-- Lists the last changes of state of a destination, the latest first.
-- Index: transitions_destination_idx.
select happened_at, former_state::text as former_state, state::text as state, reason
from outbox.destination_transitions
where destination_id = %(id)s
order by id desc
limit %(limit)s
