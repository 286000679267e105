-- The events of the outbox, for the comparison.
select e.id::text as event_id
from outbox.events e
