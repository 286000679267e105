-- Counts the events whose attempts at one destination show that it fails: tried again or given up on, but neither
-- refused for good (their own fault), nor throttled (429: it works), nor uncharged (this side's fault). At most 1,000
-- open and 1,000 dead ones are looked at.
-- Index: deliveries_due_idx, dead_letters_destination_idx, attempts_event_idx.
with tried as (
    (select event_id
    from outbox.deliveries
    where destination_id = %(destination_id)s and attempt > 0
    order by due_at, id
    limit 1000)
    union
    (select event_id
    from outbox.dead_letters
    where destination_id = %(destination_id)s
    order by died_at desc, delivery_id desc
    limit 1000))
select count(distinct a.event_id)::integer as failed_events
from tried t
join outbox.attempts a on a.event_id = t.event_id
where a.destination_id = %(destination_id)s
    and (a.outcome = 'retry' or a.outcome = 'dead' and a.detail like 'gave up %%')
    and a.status is distinct from 429
    and a.started_at > now() - make_interval(secs => %(looked_back_seconds)s)
