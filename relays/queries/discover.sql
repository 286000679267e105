-- Finds the destinations of deliveries recorded lately, walking the primary key from the last id seen: what a wake-up
-- costs does not depend on how many destinations there are. Late commits behind it are found by sweeps.
-- Index: deliveries_pkey.
select destination_id, count(*) as recorded, bool_or(key is not null) as has_keys, max(id) as last_id,
    extract(epoch from min(due_at) - clock_timestamp())::double precision as next_due_seconds
from (
    select d.destination_id, d.key, d.id, d.due_at
    from outbox.deliveries d
    where d.id > %(last_id)s
    order by d.id
    limit %(scan_limit)s) recorded
group by destination_id
