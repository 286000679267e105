-- Drops the chosen dead letters for good; the timeline keeps that, and who did it.
-- Index: dead_letters_pkey.
with dropped as (
    delete from outbox.dead_letters x
    where x.delivery_id = any (%(ids)s::bigint[])
    returning x.delivery_id, x.event_id, x.destination_id, x.recipient, x.attempt, x.reason),
history as (
    insert into outbox.attempts (delivery_id, event_id, destination_id, recipient, attempt, started_at, outcome, reason, detail)
    select delivery_id, event_id, destination_id, recipient, attempt, clock_timestamp(), 'discarded', reason, %(actor)s
    from dropped)
select delivery_id, event_id::text as event_id
from dropped
order by delivery_id
