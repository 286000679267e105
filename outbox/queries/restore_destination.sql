-- Takes back the removal of the destination that had a name last, and makes it active: what it holds goes on.
-- Index: none, a few rows.
update outbox.destinations
set removed_at = null, state = 'active', state_reason = null, held_until = null
where id = (
    select d.id
    from outbox.destinations d
    where d.name = %(name)s and d.removed_at is not null
    order by d.removed_at desc
    limit 1)
returning id
