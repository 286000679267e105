-- Extends the leases of everything in flight or not yet settled.
-- Keeps: lease-token (a lapsed and retaken lease is not taken back). A HOT update: no index holds these columns.
-- Rows being settled at this moment are skipped, not waited for: settling locks many rows, too, and in another order,
-- so waiting could deadlock.
-- Index: deliveries_pkey, then deliveries_due_idx by its whole key.
with owned as materialized (
    select d.destination_id, d.due_at, d.id, r.lease_seconds
    from unnest(%(ids)s::bigint[], %(tokens)s::bigint[], %(lease_seconds)s::double precision[])
        as r (id, token, lease_seconds)
    join outbox.deliveries d on d.id = r.id and d.lease_token = r.token
    for update of d skip locked)
update outbox.deliveries d
set leased_until = now() + make_interval(secs => owned.lease_seconds)
from owned
where d.destination_id = owned.destination_id and d.due_at = owned.due_at and d.id = owned.id
