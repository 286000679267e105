-- Parks a destination: until a time (Retry-After), tripped, or disabled (410). Written on transitions only, and never
-- over an operator's pause. Keeps: held-not-lost.
update outbox.destinations
set state = case when %(state)s = 'held' then state else %(state)s::outbox.destination_state end,
    state_reason = %(reason)s,
    held_until = greatest(held_until, clock_timestamp() + make_interval(secs => %(seconds)s))
where id = %(destination_id)s
  and state in ('active', 'tripped')
  and (state::text <> %(state)s
       and (%(state)s <> 'held' or held_until is null
            or held_until < clock_timestamp() + make_interval(secs => %(seconds)s)))
