-- Makes a destination active again, whatever held it: an operator, a trip, a Retry-After, a 410.
-- Index: destinations_pkey.
update outbox.destinations
set state = 'active', state_reason = null, held_until = null
where id = %(id)s
