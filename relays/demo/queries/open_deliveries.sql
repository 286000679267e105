-- What is not finished, for the comparison and for waiting.
select d.name as destination, x.event_id::text as event_id
from outbox.deliveries x
join outbox.destinations d on d.id = x.destination_id
