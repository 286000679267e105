-- Lists what the roles of deploy/roles.sql may not do and should, or may do and should not; nothing for roles that do
-- not exist.
with needs (role, what, may) as (
    select 'outbox_writer', 'execute outbox.record_event',
        has_function_privilege(w.oid, 'outbox.record_event(text,jsonb,text,text,jsonb,timestamptz,text)', 'execute')
            and has_schema_privilege(w.oid, 'outbox', 'usage')
    from pg_roles w where w.rolname = 'outbox_writer'
    union all
    select 'outbox_writer', 'not read outbox.' || t.name, not has_table_privilege(w.oid, 'outbox.' || t.name, 'select')
    from pg_roles w, (values ('events'), ('deliveries'), ('destinations')) t (name) where w.rolname = 'outbox_writer'
    union all
    select 'outbox_relay', p.privilege || ' on outbox.' || p.name, has_table_privilege(w.oid, 'outbox.' || p.name, p.privilege)
    from pg_roles w,
        (values ('deliveries', 'select'), ('deliveries', 'insert'), ('deliveries', 'update'), ('deliveries', 'delete'),
            ('events', 'select'), ('attempts', 'insert'), ('outcome_counts', 'insert'), ('dead_letters', 'insert'),
            ('relays', 'insert'), ('relays', 'update'), ('destinations', 'select'), ('meta', 'select')) p (name, privilege)
    where w.rolname = 'outbox_relay'
    union all
    select 'outbox_reader', 'select on outbox.' || c.relname, has_table_privilege(w.oid, c.oid, 'select')
    from pg_roles w, pg_class c
    where w.rolname = 'outbox_reader' and c.relnamespace = 'outbox'::regnamespace and c.relkind = 'v'
    union all
    select 'outbox_reader', 'not read outbox.' || t.name, not has_table_privilege(w.oid, 'outbox.' || t.name, 'select')
    from pg_roles w, (values ('events'), ('destinations')) t (name) where w.rolname = 'outbox_reader')
select role, what
from needs
where not may
order by role, what
