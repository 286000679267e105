-- What the handler did, one row for each time it did it.
select r.event_id::text as event_id
from shop.reservations r
