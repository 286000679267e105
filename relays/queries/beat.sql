-- Renews the heartbeat of this relay; `relay_now` is its machine's clock, which webhooks are signed with.
update outbox.relays
set heartbeat_at = clock_timestamp(), in_flight = %(in_flight)s, state = %(state)s, doorbell = %(doorbell)s,
    failing = %(failing)s,
    serves = coalesce(%(serves)s::jsonb, serves),
    clock_ahead_seconds = extract(epoch from %(relay_now)s::timestamptz - clock_timestamp()),
    stopped_at = case when %(state)s = 'stopped' then clock_timestamp() end
where id = %(relay_id)s
