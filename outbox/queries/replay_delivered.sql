-- Delivers a batch of delivered deliveries again, under their own ids, with a new budget; the timeline says who did it.
-- What is open, dead, or was delivered again since the replay began is passed over, so that an interrupted run can go
-- on and two at once double nothing.
-- Keeps: same-identity, key-order (an older id goes before newer ones of its key).
-- Index: attempts_event_idx.
with chosen as materialized (
    select distinct on (a.delivery_id) a.delivery_id, a.event_id, a.destination_id, a.recipient, e.key, e.recorded_at
    from outbox.attempts a
    join outbox.destinations d on d.id = a.destination_id and d.removed_at is null
    join outbox.events e on e.id = a.event_id
    where a.event_id = any (%(event_ids)s::uuid[]) and a.delivery_id = any (%(ids)s::bigint[])
      and a.outcome = 'delivered'
      and not exists (select from outbox.deliveries o where o.id = a.delivery_id)
      and not exists (select from outbox.dead_letters x where x.delivery_id = a.delivery_id)
      and not exists (
          select from outbox.attempts later
          where later.event_id = a.event_id and later.delivery_id = a.delivery_id and later.outcome = 'delivered'
            and later.started_at >= %(until)s::timestamptz)
    order by a.delivery_id),
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
select id as delivery_id, event_id::text as event_id
from opened
order by id
