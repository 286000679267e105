-- Keeps the transitions of destinations: when one was tripped, paused, disabled or resumed, and why.
-- Locks: SHARE ROW EXCLUSIVE on outbox.destinations, for an instant. Deploy before the code. Breaking: no.

create table outbox.transitions (
    id bigint generated always as identity,
    destination_id integer not null,
    happened_at timestamptz not null default clock_timestamp(),
    state outbox.destination_state not null,
    former_state outbox.destination_state not null,
    reason text,
    constraint transitions_pkey primary key (id)
);
comment on table outbox.transitions is
    'What operators must be able to look up later: every change of a destination''s state, whoever made it. The last 100 of each.';
comment on column outbox.transitions.reason is 'The state_reason of the new state; null when it is active again.';
create index transitions_destination_idx on outbox.transitions (destination_id, id);
comment on index outbox.transitions_destination_idx is 'The last transitions of one destination.';

-- Security definer: who may change a state need not be able to write history, or to forge it.
create function outbox.keep_transition() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    insert into outbox.transitions (destination_id, state, former_state, reason)
    values (new.id, new.state, old.state, new.state_reason);
    -- A destination that trips every minute must not fill the disk.
    delete from outbox.transitions t
    where t.destination_id = new.id and t.id <= (
        select o.id from outbox.transitions o where o.destination_id = new.id order by o.id desc offset 100 limit 1);
    return null;
end
$$;
comment on function outbox.keep_transition() is 'Adds a row to outbox.transitions for a change of state, and forgets all but the last 100.';
create trigger destinations_keep_transition after update of state on outbox.destinations
    for each row when (old.state is distinct from new.state) execute function outbox.keep_transition();

create view outbox.destination_transitions as
    select t.id, t.destination_id, d.name as destination, t.happened_at, t.state, t.former_state, t.reason
    from outbox.transitions t
    join outbox.destinations d on d.id = t.destination_id;
comment on view outbox.destination_transitions is 'Transitions with the name of their destination.';

revoke execute on all functions in schema outbox from public;
