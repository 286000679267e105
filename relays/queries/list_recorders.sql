-- Lists the virtual transactions that write to outbox.deliveries now: until all of them are gone, rows recorded before
-- now may still become visible. Prepared transactions keep theirs. Run it after reading the clock, never with it.
select coalesce(array_agg(virtualtransaction), '{}') as recorders
from pg_locks
where locktype = 'relation'
  and database = (select oid from pg_database where datname = current_database())
  and relation = 'outbox.deliveries'::regclass
  and mode = 'RowExclusiveLock'
  and granted
  and pid is distinct from pg_backend_pid()
