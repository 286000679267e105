-- Settles delivered deliveries inside a handler's own transaction, so that what the handler did and the end of its
-- deliveries are committed together, or neither (exactly-once effect).
-- Keeps: lease-token (a row whose token is another's is left alone and missing from the returned ids: the caller then
-- rolls back), every-try-recorded, database-time (now() is the start of the transaction, just before the handler's).
-- Locks the rows in the order of their ids: two statements that lock several this way cannot deadlock.
-- Index: deliveries_pkey.
with owned as materialized (
    select d.id, r.status, r.detail
    from unnest(%(ids)s::bigint[], %(tokens)s::bigint[], %(statuses)s::integer[], %(details)s::text[])
        as r (id, token, status, detail)
    join outbox.deliveries d on d.id = r.id and d.lease_token = r.token
    order by d.id
    for update of d),
delivered as (
    delete from outbox.deliveries d
    using owned
    where d.id = owned.id
    returning d.id, d.event_id, d.destination_id, d.recipient, d.attempt, d.relay_id, d.recorded_at, owned.status, owned.detail),
history as (
    insert into outbox.attempts (
        delivery_id, event_id, destination_id, recipient, attempt, started_at, duration_ms, outcome, reason, certainty,
        status, detail, relay_id)
    select id, event_id, destination_id, recipient, attempt, now(),
        (extract(epoch from clock_timestamp() - now()) * 1000)::integer, 'delivered', null, 'answered', status, detail,
        relay_id
    from delivered),
counted as (
    insert into outbox.outcome_counts (destination_id, minute, delivered, retried, died, latency_sum_ms, latency_max_ms)
    select destination_id, date_trunc('minute', clock_timestamp()), count(*), 0, 0, sum(latency_ms), max(latency_ms)
    from (
        select destination_id, (extract(epoch from clock_timestamp() - recorded_at) * 1000)::bigint as latency_ms
        from delivered) outcomes
    group by destination_id)
select array(select id from delivered) as settled_ids
