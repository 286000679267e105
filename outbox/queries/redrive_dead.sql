-- Revives the chosen dead letters under their own delivery ids, with a new budget, due now, in their order; the timeline
-- says who did it. One statement: at any instant each is either dead or open.
-- Keeps: same-identity, key-order (an older id goes before newer ones of its key).
-- Index: dead_letters_pkey.
with revived as (
    delete from outbox.dead_letters x
    where x.delivery_id = any (%(ids)s::bigint[])
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
