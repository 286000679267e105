-- Says that the outbox belongs here from now on: relays send from it again. Leases of the other place lapse by themselves.
with adopted as (
    update outbox.meta m
    set system_identifier = c.system_identifier, database_oid = d.oid
    from pg_control_system() c, pg_database d
    where d.datname = current_database()
      and (m.system_identifier <> c.system_identifier or m.database_oid <> d.oid)
    returning m.only_row)
select count(*)::integer as adopted
from adopted
