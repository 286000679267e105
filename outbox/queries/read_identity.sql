-- Reads which cluster and database the outbox was installed in, and which this one is.
select m.system_identifier as installed_system, c.system_identifier as this_system,
    m.database_oid as installed_database, d.oid as this_database
from outbox.meta m, pg_control_system() c, pg_database d
where d.datname = current_database()
