-- Reads how well the table of open deliveries is kept: dead rows, HOT updates, its storage options, its last vacuum.
select s.n_live_tup as live, s.n_dead_tup as dead, s.n_tup_upd as updates, s.n_tup_hot_upd as hot_updates,
    coalesce(c.reloptions, '{}') as options, pg_table_size(c.oid) as bytes,
    greatest(s.last_vacuum, s.last_autovacuum) as vacuumed_at,
    current_setting('autovacuum')::boolean as is_autovacuum_on
from pg_class c
join pg_stat_user_tables s on s.relid = c.oid
where c.oid = 'outbox.deliveries'::regclass
