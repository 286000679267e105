-- Lists deliveries of events by their ids, with when they were last delivered, as samples before a replay.
-- Index: attempts_event_idx.
select a.event_id::text as event_id, d.name as destination, e.type, max(a.started_at) as delivered_at
from outbox.attempts a
join outbox.destinations d on d.id = a.destination_id
join outbox.events e on e.id = a.event_id
where a.event_id = any (%(event_ids)s::uuid[]) and a.delivery_id = any (%(ids)s::bigint[]) and a.outcome = 'delivered'
group by a.delivery_id, a.event_id, d.name, e.type
order by a.delivery_id
