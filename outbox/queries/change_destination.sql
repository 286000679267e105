-- Changes what a destination gets and how.
-- Index: destinations_pkey.
update outbox.destinations
set event_types = %(event_types)s, settings = %(settings)s::jsonb, policy = %(policy)s::jsonb
where id = %(id)s
