-- Lists dead letters, oldest first.
-- Index: dead_letters_destination_idx, dead_letters_event_idx.
select x.delivery_id, x.event_id::text as event_id, d.name as destination, e.type, x.key, x.recipient, x.attempt, x.reason,
    x.detail, x.recorded_at, x.died_at
from outbox.dead_letters x
join outbox.destinations d on d.id = x.destination_id
join outbox.events e on e.id = x.event_id
where true
  and (%(destination)s::text is null or d.name = %(destination)s)
  and (%(event_type)s::text is null or e.type = %(event_type)s)
  and (%(type_prefix)s::text is null or starts_with(e.type, %(type_prefix)s))
  and (%(event_ids)s::uuid[] is null or x.event_id = any (%(event_ids)s))
  and (%(reason)s::text is null or x.reason = %(reason)s)
  and (%(since)s::timestamptz is null or x.died_at >= %(since)s)
  and (%(until)s::timestamptz is null or x.died_at < %(until)s)
  and (%(is_removed)s::boolean is null or (d.removed_at is not null) = %(is_removed)s)
order by x.died_at, x.delivery_id
limit %(limit)s
