-- Lists the names that destinations have, or had before they were removed.
-- Index: none, a few rows.
select distinct d.name
from outbox.destination_states d
order by d.name
