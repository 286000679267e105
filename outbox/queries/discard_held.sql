-- Drops a batch of the open deliveries that a removed destination left behind; the timeline keeps that, and who did it.
-- Lapsed leases are dropped, too: nobody recovers them where nothing is served. Keeps: lease-token (a late settle finds nothing).
-- Index: deliveries_due_idx.
with chosen as materialized (
    select o.id
    from outbox.deliveries o
    join outbox.destinations d on d.id = o.destination_id
    where d.removed_at is not null and d.name = %(destination)s and (o.lease_token is null or o.leased_until < now())
    order by o.id
    limit %(batch)s
    for update of o skip locked),
dropped as (
    delete from outbox.deliveries o
    using chosen
    where o.id = chosen.id
    returning o.id, o.event_id, o.destination_id, o.recipient, o.attempt),
history as (
    insert into outbox.attempts (delivery_id, event_id, destination_id, recipient, attempt, started_at, outcome, reason, detail)
    select id, event_id, destination_id, recipient, attempt, clock_timestamp(), 'discarded', 'destination_removed', %(actor)s
    from dropped)
select id as delivery_id, event_id::text as event_id
from dropped
order by id
