-- Adds a destination: events recorded from now on are routed to it.
insert into outbox.destinations (name, sink, event_types, settings, policy)
values (%(name)s, %(sink)s, %(event_types)s, %(settings)s::jsonb, %(policy)s::jsonb)
