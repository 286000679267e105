-- Counts the open deliveries that removed destinations of a name left behind.
-- Index: deliveries_due_idx.
select count(*) as held
from outbox.deliveries o
join outbox.destinations d on d.id = o.destination_id
where d.removed_at is not null and d.name = %(destination)s
