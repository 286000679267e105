-- Says which keyed deliveries a claim may take: those with id <= frontier in one of the free slots (promise key-order).
-- Why: commit order is not id order. A recorder holds its key's slot (shared) from before it draws the id until it
-- ends. The frontier is read first; a slot that can be locked after that has no recorder left with an id up to the
-- frontier, so a claim with a later snapshot sees every one of them. Locked for an instant only, never waited for.
-- Index: deliveries_due_idx for the candidates, deliveries_key_idx for the keys that go on.
with frontier as materialized (
    select last_value as id from outbox.deliveries_id_seq),
asked as (
    select destination_id, low_due_at, low_id
    from unnest(%(destination_ids)s::integer[], %(low_due_ats)s::timestamptz[], %(low_ids)s::bigint[])
        as asked (destination_id, low_due_at, low_id)),
candidate_slots as materialized (
    select distinct outbox.key_slot(candidate.key) as slot
    from asked
    cross join lateral (
        select d.key
        from outbox.deliveries d
        where d.destination_id = asked.destination_id
          and (d.due_at, d.id) > (asked.low_due_at, asked.low_id)
          and d.due_at <= now()
        order by d.due_at, d.id
        limit %(scan_limit)s) candidate
    where candidate.key is not null
    union
    select outbox.key_slot(going_on.key) from unnest(%(keys)s::text[]) as going_on (key))
select frontier.id as frontier,
    array(
        select slot
        from candidate_slots
        where frontier.id is not null -- correlated, so tried after the frontier is read
          and pg_try_advisory_lock(1330205761, slot)
          and pg_advisory_unlock(1330205761, slot)) as free_slots,
    exists (select from candidate_slots) as has_candidates
from frontier
