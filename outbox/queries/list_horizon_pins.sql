-- Lists what has held back the removal of dead rows for longer than a time: open snapshots of sessions, prepared
-- transactions, replication slots and standbys. Oldest first. Without pg_monitor other users' sessions are not seen.
select kind, pid, name, state, age_seconds, query_age_seconds, xids
from (
    select 'session' as kind, a.pid, coalesce(nullif(a.application_name, ''), a.usename::text) as name, a.state,
        extract(epoch from clock_timestamp() - a.xact_start)::double precision as age_seconds,
        extract(epoch from clock_timestamp() - a.query_start)::double precision as query_age_seconds,
        age(coalesce(a.backend_xmin, a.backend_xid)) as xids
    from pg_stat_activity a
    where (a.backend_xmin is not null or a.backend_xid is not null)
      and a.backend_type = 'client backend' and a.pid <> pg_backend_pid()
      and a.datname = current_database()
    union all
    select 'prepared transaction', null, p.gid, 'prepared',
        extract(epoch from clock_timestamp() - p.prepared)::double precision, null, age(p.transaction)
    from pg_prepared_xacts p
    where p.database = current_database()
    union all
    select 'replication slot', s.active_pid, s.slot_name::text, case when s.active then 'active' else 'inactive' end,
        null, null, age(s.xmin)
    from pg_replication_slots s
    where s.xmin is not null
    union all
    select 'standby', r.pid, r.application_name, r.state,
        null, null, age(r.backend_xmin)
    from pg_stat_replication r
    where r.backend_xmin is not null) pins
where age_seconds >= %(min_seconds)s or age_seconds is null and xids >= %(min_xids)s
order by age_seconds desc nulls last, xids desc
