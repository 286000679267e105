-- Makes a tripped destination active again after a probe was delivered; never over an operator's pause.
-- Index: destinations_pkey.
update outbox.destinations
set state = 'active', state_reason = null, held_until = null
where id = %(destination_id)s and state = 'tripped'
