-- Removes a destination: no new deliveries, and the open ones are held until discarded.
-- Index: destinations_pkey, deliveries_due_idx.
with removed as (
    update outbox.destinations
    set removed_at = clock_timestamp()
    where id = %(id)s
    returning id)
select count(o.id) as left_open
from removed
left join outbox.deliveries o on o.destination_id = removed.id
