-- Writes the outcomes of everything finished since the last flush, in one statement.
-- Keeps: lease-token (a row whose token is another's is left alone, and missing from the returned ids), at-least-once
-- (delete and history row, or move to dead letters and history row, happen together), every-try-recorded,
-- database-time (started_at is this statement's clock less the measured age).
-- Index: deliveries_pkey for every part.
with delivered as (
    delete from outbox.deliveries d
    using unnest(
        %(ids)s::bigint[], %(tokens)s::bigint[], %(ages_ms)s::integer[], %(durations_ms)s::integer[],
        %(statuses)s::integer[], %(details)s::text[]) as r (id, token, age_ms, duration_ms, status, detail)
    where d.id = r.id and d.lease_token = r.token
    returning d.id, d.event_id, d.destination_id, d.recipient, d.attempt, d.relay_id, d.recorded_at,
        r.age_ms, r.duration_ms, r.status, r.detail),
refused as materialized (
    select id, token, age_ms, duration_ms, outcome, wait_seconds, reason, certainty, status, detail, is_charged, was_started
    from unnest(
        %(refused_ids)s::bigint[], %(refused_tokens)s::bigint[], %(refused_ages_ms)s::integer[],
        %(refused_durations_ms)s::integer[], %(outcomes)s::outbox.outcome[], %(waits)s::double precision[],
        %(reasons)s::text[], %(certainties)s::outbox.certainty[], %(refused_statuses)s::integer[],
        %(refused_details)s::text[], %(are_charged)s::boolean[], %(were_started)s::boolean[])
        as r (id, token, age_ms, duration_ms, outcome, wait_seconds, reason, certainty, status, detail, is_charged,
            was_started)),
-- back to the table: a fresh due_at, so that the row lies ahead of every low-water mark
retried as (
    update outbox.deliveries d
    set due_at = clock_timestamp() + make_interval(secs => r.wait_seconds),
        attempt = d.attempt - case when r.is_charged then 0 else 1 end,
        lease_token = null, leased_until = null, relay_id = null
    from refused r
    where d.id = r.id and d.lease_token = r.token and r.outcome in ('retry', 'released')
    returning d.id, d.event_id, d.destination_id, d.recipient, d.attempt + case when r.is_charged then 0 else 1 end as attempt,
        d.recorded_at, r.age_ms, r.duration_ms, r.outcome, r.reason, r.certainty, r.status, r.detail, r.was_started),
died as (
    delete from outbox.deliveries d
    using refused r
    where d.id = r.id and d.lease_token = r.token and r.outcome = 'dead'
    returning d.id, d.event_id, d.destination_id, d.key, d.recipient, d.attempt, d.interruptions, d.recorded_at,
        r.age_ms, r.duration_ms, r.outcome, r.reason, r.certainty, r.status, r.detail, r.was_started),
buried as (
    insert into outbox.dead_letters (
        delivery_id, event_id, destination_id, key, recipient, attempt, interruptions, reason, detail, recorded_at, died_at)
    select id, event_id, destination_id, key, recipient, attempt, interruptions, reason, detail, recorded_at, clock_timestamp()
    from died),
-- requests of the same attempt that came before its outcome: a kept connection died unanswered
repeated as materialized (
    select s.id, s.event_id, s.destination_id, s.recipient, s.attempt, s.age_ms, r.reason, r.certainty, r.detail
    from unnest(
        %(repeat_ids)s::bigint[], %(repeat_reasons)s::text[], %(repeat_certainties)s::outbox.certainty[],
        %(repeat_details)s::text[]) as r (id, reason, certainty, detail)
    join (
        select id, event_id, destination_id, recipient, attempt, age_ms from delivered
        union all
        select id, event_id, destination_id, recipient, attempt, age_ms from retried
        union all
        select id, event_id, destination_id, recipient, attempt, age_ms from died) s on s.id = r.id),
history as (
    insert into outbox.attempts (
        delivery_id, event_id, destination_id, recipient, attempt, started_at, duration_ms, outcome, reason, certainty,
        status, detail, relay_id)
    select id, event_id, destination_id, recipient, attempt, now() - age_ms * interval '1 millisecond', duration_ms,
        'delivered', null, 'answered', status, detail, relay_id
    from delivered
    union all
    select id, event_id, destination_id, recipient, attempt, now() - age_ms * interval '1 millisecond', duration_ms,
        outcome, reason, certainty, status, detail, %(relay_id)s
    from retried
    where was_started
    union all
    select id, event_id, destination_id, recipient, attempt, now() - age_ms * interval '1 millisecond', duration_ms,
        outcome, reason, certainty, status, detail, %(relay_id)s
    from died
    union all
    select id, event_id, destination_id, recipient, attempt, now() - age_ms * interval '1 millisecond', 0,
        'retry', reason, certainty, null, detail, %(relay_id)s
    from repeated),
counted as (
    insert into outbox.outcome_counts (destination_id, minute, delivered, retried, died, latency_sum_ms, latency_max_ms)
    select destination_id, date_trunc('minute', now()), sum(delivered), sum(retried), sum(died),
        coalesce(sum(latency_ms), 0), coalesce(max(latency_ms), 0)
    from (
        select destination_id, 1 as delivered, 0 as retried, 0 as died,
            (extract(epoch from now() - recorded_at) * 1000)::bigint as latency_ms
        from delivered
        union all
        select destination_id, 0, 1, 0, null from retried where outcome = 'retry'
        union all
        select destination_id, 0, 0, 1, null from died) outcomes
    group by destination_id)
select array(select id from delivered) || array(select id from retried) || array(select id from died) as settled_ids
