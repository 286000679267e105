-- Reads one event, without its payload.
-- Index: primary key of outbox.events.
select e.id::text as id, e.type, e.key, e.recorded_at
from outbox.recorded_events e
where e.id = %(event_id)s::uuid
