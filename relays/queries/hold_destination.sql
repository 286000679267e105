-- Parks a destination: until a time (Retry-After: state stays active), tripped, or disabled (410). Written on
-- transitions and after a failed probe only, and never over an operator's pause. Keeps: held-not-lost.
-- Index: destinations_pkey.
update outbox.destinations
set state = case when %(state)s = 'held' then state else (%(state)s::text)::outbox.destination_state end,
    state_reason = %(reason)s,
    held_until = greatest(held_until, clock_timestamp() + make_interval(secs => %(seconds)s))
where id = %(destination_id)s
  and state in ('active', 'tripped')
  and (state::text <> %(state)s or %(state)s = 'tripped')
