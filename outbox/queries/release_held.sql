-- Gives held deliveries that are overdue a fresh due_at, a batch in their order of id, a microsecond apart: relays start
-- claims behind the last row they claimed (promise flat), so what becomes claimable again must lie ahead of that.
-- Index: deliveries_pkey.
with held as materialized (
    select d.id
    from outbox.deliveries d
    where d.id > %(after_id)s and d.destination_id = %(id)s and d.due_at < now() and d.lease_token is null
    order by d.id
    limit %(batch)s
    for update skip locked),
placed as (
    select id, row_number() over (order by id) as place
    from held),
released as (
    update outbox.deliveries d
    set due_at = clock_timestamp() + placed.place * interval '1 microsecond'
    from placed
    where d.id = placed.id
    returning d.id)
select count(*)::integer as released, max(id) as last_id
from released
