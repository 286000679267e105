-- Pauses a destination: relays claim nothing more for it. Keeps: held-not-lost.
-- Index: destinations_pkey.
update outbox.destinations
set state = 'paused', state_reason = %(reason)s
where id = %(id)s
