-- Delivers a batch of delivered deliveries again, under their own ids, with a new budget; the timeline says who did it.
-- What was delivered again after the start of the first run (until) is not taken by a second one.
-- Keeps: same-identity.
-- Index: attempts_event_idx for single events; else the partitions of the time range are scanned.
with chosen as materialized (
    select distinct on (a.delivery_id) a.delivery_id, a.event_id, a.destination_id, a.recipient, e.key, e.recorded_at
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
  and a.delivery_id > %(after_id)s
  and not exists (select from outbox.deliveries o where o.id = a.delivery_id)
  and not exists (select from outbox.dead_letters x where x.delivery_id = a.delivery_id)
  and not exists (
      select from outbox.attempts later
      where later.event_id = a.event_id and later.delivery_id = a.delivery_id and later.outcome = 'delivered'
        and later.started_at >= %(until)s::timestamptz)
    order by a.delivery_id
    limit %(batch)s),
opened as (
    insert into outbox.deliveries (id, event_id, destination_id, key, recipient, due_at, recorded_at)
    overriding system value
    select delivery_id, event_id, destination_id, key, recipient,
        clock_timestamp() + row_number() over (order by delivery_id) * interval '1 microsecond', recorded_at
    from chosen
    on conflict (id) do nothing
    returning id, event_id, destination_id, recipient),
history as (
    insert into outbox.attempts (delivery_id, event_id, destination_id, recipient, attempt, started_at, outcome, detail)
    select id, event_id, destination_id, recipient, 0, clock_timestamp(), 'replayed', %(actor)s
    from opened)
select id as delivery_id
from opened
order by id
