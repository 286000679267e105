-- Extends the leases of everything in flight or not yet settled; returns the ids still owned.
-- Keeps: lease-token (a lapsed and retaken lease is not taken back). A HOT update: no index holds these columns.
-- Index: deliveries_pkey.
update outbox.deliveries d
set leased_until = now() + make_interval(secs => r.lease_seconds)
from unnest(%(ids)s::bigint[], %(tokens)s::bigint[], %(lease_seconds)s::double precision[]) as r (id, token, lease_seconds)
where d.id = r.id and d.lease_token = r.token
returning d.id
