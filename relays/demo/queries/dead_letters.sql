-- What was given up on, and why.
select d.name as destination, x.event_id::text as event_id, e.type, x.attempt as tries, x.reason, x.detail
from outbox.dead_letters x
join outbox.destinations d on d.id = x.destination_id
join outbox.events e on e.id = x.event_id
order by x.died_at
