-- Lists the relays that are alive, and those that went silent within the last hour without saying so.
select r.id, r.name, r.version, r.doorbell, r.in_flight, r.concurrency, r.serves, r.clock_ahead_seconds,
    case when r.heartbeat_at < now() - interval '15 seconds' then 'lost' else r.state end as state,
    extract(epoch from now() - r.heartbeat_at)::double precision as heartbeat_age_seconds
from outbox.relays r
where r.state <> 'stopped' and r.heartbeat_at > now() - interval '1 hour'
order by r.id
