-- Lists the relays that are alive and what they serve, in the order of their ranks: shares of fleet-wide limits follow
-- from it (relays/shares.py).
-- Index: none, a few rows.
select id, serves -> 'destinations' as destinations
from outbox.relays
where state = 'running' and heartbeat_at > clock_timestamp() - interval '15 seconds'
order by id
