-- Lists every delivery of one event, whatever became of it, with what is needed to say why it is not delivered yet.
-- Index: deliveries_event_idx, dead_letters_event_idx, attempts_event_idx, deliveries_key_idx.
with finished as (
    select distinct on (a.delivery_id) a.delivery_id, a.destination_id, a.shown_recipient as recipient, a.outcome::text as outcome
    from outbox.timeline a
    where a.event_id = %(event_id)s::uuid
    order by a.delivery_id, a.started_at desc, a.attempt desc),
known as (
    select o.id, o.destination_id, o.shown_recipient as recipient, o.key, 'open' as place, o.due_at, o.attempt, o.leased_until,
        o.relay_id, null::text as reason
    from outbox.open_states o
    where o.event_id = %(event_id)s::uuid
    union all
    select x.delivery_id, x.destination_id, x.shown_recipient, x.key, 'dead', null, x.attempt, null, null, x.reason
    from outbox.dead_states x
    where x.event_id = %(event_id)s::uuid
    union all
    select f.delivery_id, f.destination_id, f.recipient, null,
        case when f.outcome = 'discarded' then 'discarded' else 'delivered' end, null, null, null, null, null
    from finished f
    where f.outcome in ('delivered', 'discarded')
      and not exists (select from outbox.open_states o where o.id = f.delivery_id)
      and not exists (select from outbox.dead_states x where x.delivery_id = f.delivery_id))
select k.id, d.name as destination, d.sink, k.recipient, k.key, k.place, k.due_at, k.attempt, k.leased_until, k.relay_id,
    k.reason, k.due_at > now() as is_later, coalesce(k.leased_until >= now(), false) as is_leased,
    coalesce(k.leased_until < now(), false) as is_lapsed,
    d.state::text as destination_state, d.state_reason, d.state_changed_at,
    case when d.held_until > now() then d.held_until end as held_until, d.removed_at,
    blocker.event_id::text as blocked_by_event, dead_blocker.event_id::text as blocked_by_dead_event,
    exists (
        select from outbox.relays r
        where r.state = 'running' and r.heartbeat_at > now() - interval '15 seconds') as is_relay_alive,
    exists (
        select from outbox.relays r
        where r.state = 'running' and r.heartbeat_at > now() - interval '15 seconds'
          and r.serves -> 'destinations' ? d.name) as is_served
from known k
join outbox.destination_states d on d.id = k.destination_id
left join lateral (
    select older.event_id
    from outbox.open_states older
    where k.place = 'open' and older.destination_id = k.destination_id and older.key = k.key and older.id < k.id
    order by older.id
    limit 1) blocker on true
left join lateral (
    select older.event_id
    from outbox.dead_states older
    where k.place = 'open' and d.policy ->> 'on_dead' = 'block'
      and older.destination_id = k.destination_id and older.key = k.key and older.delivery_id < k.id
    order by older.delivery_id
    limit 1) dead_blocker on true
order by d.name, k.id
