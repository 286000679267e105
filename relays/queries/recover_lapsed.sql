-- Takes back deliveries whose lease lapsed: the relay that held them died or stalled.
-- Keeps: every-try-recorded (one interrupted row per crash), at-least-once. The first interruption makes a delivery a
-- suspect, due at once; later ones put backoff between; the fourth (three as a suspect) makes it dead, so that an
-- event that kills its relay dies alone.
-- Index: deliveries_due_idx between the safe mark and the low-water mark, then deliveries_due_idx by its whole key.
with asked as (
    select destination_id, safe_due_at, safe_id, high_due_at
    from unnest(
        %(destination_ids)s::integer[], %(safe_due_ats)s::timestamptz[], %(safe_ids)s::bigint[],
        %(high_due_ats)s::timestamptz[])
        as asked (destination_id, safe_due_at, safe_id, high_due_at)),
lapsed as materialized (
    select asked.destination_id, l.due_at, l.id, l.leased_until, l.relay_id
    from asked
    cross join lateral (
        select d.due_at, d.id, d.leased_until, d.relay_id
        from outbox.deliveries d
        where d.destination_id = asked.destination_id
          and (d.due_at, d.id) > (asked.safe_due_at, asked.safe_id)
          and d.due_at <= least(now(), asked.high_due_at)
          and d.leased_until < now()
        order by d.due_at, d.id
        limit %(recover_limit)s
        for update skip locked) l),
died as (
    delete from outbox.deliveries d
    using lapsed l
    where d.destination_id = l.destination_id and d.due_at = l.due_at and d.id = l.id
      and d.interruptions + 1 >= %(dead_after)s
    returning d.id, d.event_id, d.destination_id, d.key, d.recipient, d.attempt, d.interruptions + 1 as interruptions, d.recorded_at,
        l.leased_until, l.relay_id),
buried as (
    insert into outbox.dead_letters (
        delivery_id, event_id, destination_id, key, recipient, attempt, interruptions, reason, detail, recorded_at, died_at)
    select id, event_id, destination_id, key, recipient, attempt, interruptions, 'relay_died',
        format('relay died during attempt %%s (%%s times)', attempt, interruptions), recorded_at, clock_timestamp()
    from died),
suspected as (
    update outbox.deliveries d
    set interruptions = d.interruptions + 1,
        due_at = clock_timestamp() + make_interval(secs => case d.interruptions
            when 0 then 0
            else %(backoff_seconds)s * 2 ^ (d.interruptions - 1) end),
        lease_token = null, leased_until = null, relay_id = null
    from lapsed l
    where d.destination_id = l.destination_id and d.due_at = l.due_at and d.id = l.id
      and d.interruptions + 1 < %(dead_after)s
    returning d.id, d.event_id, d.destination_id, d.recipient, d.attempt, d.interruptions, l.leased_until, l.relay_id),
history as (
    insert into outbox.attempts (
        delivery_id, event_id, destination_id, recipient, attempt, started_at, outcome, reason, certainty, detail, relay_id)
    select id, event_id, destination_id, recipient, attempt, leased_until,
        'interrupted'::outbox.outcome, 'relay_died', 'ambiguous'::outbox.certainty,
        format('relay %%s died or stalled during attempt %%s; its lease lapsed at %%s', relay_id, attempt, leased_until),
        relay_id
    from suspected
    union all
    select id, event_id, destination_id, recipient, attempt, leased_until,
        'dead', 'relay_died', 'ambiguous',
        format('relay died during attempt %%s (%%s times)', attempt, interruptions), relay_id
    from died)
select
    (select count(*) from suspected)::integer as suspected,
    (select count(*) from died)::integer as died
