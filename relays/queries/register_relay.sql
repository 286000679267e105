-- Registers this start of a relay: a fresh id each time, so that a reused host name keeps no ghost alive.
insert into outbox.relays (name, host, pid, version, concurrency, serves)
values (%(name)s, %(host)s, %(pid)s, %(version)s, %(concurrency)s, %(serves)s::jsonb)
returning id
