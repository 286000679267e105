-- Chooses a batch of dead letters of a selection, oldest ids first, and locks them until the end of the transaction:
-- what another command has chosen is passed over, so two at once take different ones.
-- Index: dead_letters_destination_idx, dead_letters_event_idx.
select x.delivery_id
from outbox.dead_letters x
join outbox.destinations d on d.id = x.destination_id
join outbox.events e on e.id = x.event_id
where (%(died_before)s::timestamptz is null or x.died_at < %(died_before)s)
  and (%(destination)s::text is null or d.name = %(destination)s)
  and (%(event_type)s::text is null or e.type = %(event_type)s)
  and (%(type_prefix)s::text is null or starts_with(e.type, %(type_prefix)s))
  and (%(event_ids)s::uuid[] is null or x.event_id = any (%(event_ids)s))
  and (%(reason)s::text is null or x.reason = %(reason)s)
  and (%(since)s::timestamptz is null or x.died_at >= %(since)s)
  and (%(until)s::timestamptz is null or x.died_at < %(until)s)
  and (%(is_removed)s::boolean is null or (d.removed_at is not null) = %(is_removed)s)
order by x.delivery_id
limit %(batch)s
for update of x skip locked
