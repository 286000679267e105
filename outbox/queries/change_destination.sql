-- Changes what a destination gets and how, unless somebody else has changed it since it was read.
-- Index: destinations_pkey.
update outbox.destinations
set event_types = %(event_types)s, settings = %(settings)s::jsonb, policy = %(policy)s::jsonb
where id = %(id)s and version = %(version)s and removed_at is null
