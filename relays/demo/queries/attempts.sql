-- The history of all deliveries, in the order in which they were tried.
select d.name as destination, d.sink, a.event_id::text as event_id, a.outcome::text as outcome, a.status
from outbox.attempts a
join outbox.destinations d on d.id = a.destination_id
order by d.name, a.started_at, a.attempt
