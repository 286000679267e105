-- Lists the relays that are alive, and those that went silent within the last hour without saying so. One that went
-- silent is replaced when, for it and each that went silent after it, a relay was started since and is alive.
-- Index: none, a few rows.
with recent as (
    select r.*, r.heartbeat_at < now() - interval '15 seconds' as is_lost
    from outbox.relays r
    where r.state <> 'stopped' and r.heartbeat_at > now() - interval '1 hour')
select r.id, r.name, r.version, r.doorbell, r.in_flight, r.concurrency, r.serves, r.clock_ahead_seconds, r.failing,
    case when r.is_lost then 'lost' else r.state end as state,
    r.is_lost and (
        select count(*) filter (where not o.is_lost and o.started_at > r.heartbeat_at)
            >= count(*) filter (where o.is_lost and o.heartbeat_at >= r.heartbeat_at)
        from recent o) as is_replaced,
    extract(epoch from now() - r.heartbeat_at)::double precision as heartbeat_age_seconds
from recent r
order by r.id
