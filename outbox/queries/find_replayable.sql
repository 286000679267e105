-- Finds the deliveries of a selection that were delivered before a moment, were not delivered again after it, and are
-- neither open nor dead now.
-- Index: attempts_event_idx for single events; else the partitions of the time range are scanned, once per replay.
select distinct on (a.delivery_id) a.delivery_id, a.event_id, a.destination_id
from outbox.attempts a
join outbox.destinations d on d.id = a.destination_id and d.removed_at is null
join outbox.events e on e.id = a.event_id
where a.outcome = 'delivered'
  and (%(destination)s::text is null or d.name = %(destination)s)
  and (%(event_type)s::text is null or e.type = %(event_type)s)
  and (%(type_prefix)s::text is null or starts_with(e.type, %(type_prefix)s))
  and (%(event_ids)s::uuid[] is null or a.event_id = any (%(event_ids)s))
  and (%(since)s::timestamptz is null or a.started_at >= %(since)s)
  and a.started_at < %(until)s::timestamptz
  and not exists (select from outbox.deliveries o where o.id = a.delivery_id)
  and not exists (select from outbox.dead_letters x where x.delivery_id = a.delivery_id)
  and not exists (
      select from outbox.attempts later
      where later.event_id = a.event_id and later.delivery_id = a.delivery_id and later.outcome = 'delivered'
        and later.started_at >= %(until)s::timestamptz)
order by a.delivery_id
