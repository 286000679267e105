-- Renews the heartbeat of this relay.
update outbox.relays
set heartbeat_at = clock_timestamp(), in_flight = %(in_flight)s, state = %(state)s, doorbell = %(doorbell)s,
    serves = coalesce(%(serves)s::jsonb, serves),
    stopped_at = case when %(state)s = 'stopped' then clock_timestamp() end
where id = %(relay_id)s
