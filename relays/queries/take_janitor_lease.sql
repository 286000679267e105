-- Takes or renews the lease of the upkeep for this relay; no row: another relay has it.
-- Index: meta_pkey.
update outbox.meta
set janitor_relay_id = %(relay_id)s, janitor_until = clock_timestamp() + make_interval(secs => %(seconds)s)
where janitor_until < clock_timestamp() or janitor_relay_id = %(relay_id)s
returning janitor_relay_id
