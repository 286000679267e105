-- Revives a batch of dead letters under their own delivery ids, with a new budget, due now, in their order; the timeline
-- says who did it. One statement: at any instant each is either dead or open. A second run skips what the first took.
-- Keeps: same-identity, key-order (an older id goes before newer ones of its key).
-- Index: dead_letters_destination_idx, dead_letters_event_idx.
with chosen as materialized (
    select x.delivery_id
    from outbox.dead_letters x
    join outbox.destinations d on d.id = x.destination_id
    join outbox.events e on e.id = x.event_id
    where d.removed_at is null and x.died_at < %(died_before)s::timestamptz
  and (%(destination)s::text is null or d.name = %(destination)s)
  and (%(event_type)s::text is null or e.type = %(event_type)s)
  and (%(type_prefix)s::text is null or starts_with(e.type, %(type_prefix)s))
  and (%(event_ids)s::uuid[] is null or x.event_id = any (%(event_ids)s))
  and (%(reason)s::text is null or x.reason = %(reason)s)
  and (%(since)s::timestamptz is null or x.died_at >= %(since)s)
  and (%(until)s::timestamptz is null or x.died_at < %(until)s)
    order by x.delivery_id
    limit %(batch)s
    for update of x skip locked),
revived as (
    delete from outbox.dead_letters x
    using chosen
    where x.delivery_id = chosen.delivery_id
    returning x.delivery_id, x.event_id, x.destination_id, x.key, x.recipient, x.attempt, x.reason, x.recorded_at),
opened as (
    insert into outbox.deliveries (id, event_id, destination_id, key, recipient, due_at, recorded_at)
    overriding system value
    select delivery_id, event_id, destination_id, key, recipient,
        clock_timestamp() + row_number() over (order by delivery_id) * interval '1 microsecond', recorded_at
    from revived),
history as (
    insert into outbox.attempts (delivery_id, event_id, destination_id, recipient, attempt, started_at, outcome, reason, detail)
    select delivery_id, event_id, destination_id, recipient, attempt, clock_timestamp(), 'redriven', reason, %(actor)s
    from revived)
select delivery_id, event_id::text as event_id
from revived
order by delivery_id
