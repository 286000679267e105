-- Lists those of some destinations that are not sent to just now.
-- Index: destinations_pkey.
select d.name, d.state::text as state, d.state_reason, d.held_until > now() as is_held
from outbox.destination_states d
where d.id = any (%(ids)s::integer[]) and (d.state <> 'active' or d.held_until > now())
order by d.name
