-- Reads what endangers the whole outbox: a restored copy, and who pins the xmin horizon.
select
    (select m.system_identifier <> c.system_identifier
            or m.database_oid <> (select oid from pg_database where datname = current_database())
     from outbox.meta m, pg_control_system() c) as is_copy,
    pinning.pid, pinning.application_name, pinning.age_seconds
from (values (1)) one (n)
left join lateral (
    select a.pid, a.application_name, extract(epoch from now() - a.xact_start)::double precision as age_seconds
    from pg_stat_activity a
    where a.backend_xmin is not null and a.xact_start < now() - interval '10 minutes' and a.pid <> pg_backend_pid()
    order by a.xact_start
    limit 1) pinning on true
