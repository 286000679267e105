-- Counts the leases that have lapsed, and those of relays that are not alive, by relay.
-- Index: none, a sequential scan of the open deliveries.
select d.relay_id, r.name as relay, count(*) as leases,
    count(*) filter (where d.leased_until < now()) as lapsed,
    extract(epoch from now() - min(d.leased_until))::double precision as lapsed_seconds
from outbox.deliveries d
left join outbox.relays r on r.id = d.relay_id
where d.lease_token is not null
  and (d.leased_until < now()
      or r.id is null or r.state = 'stopped' or r.heartbeat_at < now() - interval '15 seconds')
group by d.relay_id, r.name
order by d.relay_id
