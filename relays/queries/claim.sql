-- Claims due deliveries without a key, for each destination asked at most `room`, oldest due first.
-- Keeps: lease-token (a fresh token), every-try-recorded (lapsed leases and suspects are left to recover.sql and
-- claim_keyed.sql), flat (starts behind the low-water mark).
-- Index: deliveries_due_idx, then the same index by its whole key, which leaves the planner no choice: statistics of a
-- queue table are always wrong.
with asked as (
    select destination_id, room, lease_seconds, low_due_at, low_id
    from unnest(
        %(destination_ids)s::integer[], %(rooms)s::integer[], %(lease_seconds)s::double precision[],
        %(low_due_ats)s::timestamptz[], %(low_ids)s::bigint[])
        as asked (destination_id, room, lease_seconds, low_due_at, low_id)),
-- locked in index order; rows other relays are claiming are skipped, not waited for
due as materialized (
    select asked.destination_id, due.due_at, due.id, asked.lease_seconds
    from asked
    cross join lateral (
        select d.due_at, d.id
        from outbox.deliveries d
        where d.destination_id = asked.destination_id
          and (d.due_at, d.id) > (asked.low_due_at, asked.low_id)
          and d.due_at <= now()
          and d.lease_token is null
          and d.interruptions = 0
          and d.key is null
        order by d.due_at, d.id
        limit asked.room
        for update skip locked) due),
fresh as materialized (
    select nextval('outbox.lease_token_seq') as lease_token),
leased as (
    update outbox.deliveries d
    set lease_token = fresh.lease_token,
        leased_until = now() + make_interval(secs => due.lease_seconds),
        attempt = d.attempt + 1,
        relay_id = %(relay_id)s
    from due, fresh
    where d.destination_id = due.destination_id and d.due_at = due.due_at and d.id = due.id
    returning d.id, d.event_id, d.destination_id, d.attempt, d.interruptions, d.due_at, d.recorded_at, d.lease_token, d.recipient)
select leased.id, leased.event_id::text, leased.destination_id, leased.attempt, leased.interruptions,
    null::text as key, null::bigint as head_id, leased.due_at, leased.recorded_at, leased.lease_token, leased.recipient,
    e.type, e.payload::json as payload, e.headers::json as headers
from leased
join outbox.events e on e.id = leased.event_id
