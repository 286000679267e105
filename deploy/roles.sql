-- Creates the three roles and gives them their rights. Run as a role that may create roles and owns the schema outbox
-- (or as a superuser), in each database that has the outbox:
--
--     psql -v ON_ERROR_STOP=1 -d app -f deploy/roles.sql
--
-- Then make your own roles members of them:
--
--     grant outbox_writer to shop_app;       -- may only record events
--     grant outbox_relay to relay_user;      -- runs `outbox-relay`: works the tables, no DDL, no superuser
--     grant outbox_reader to dashboards;     -- status and history through views, no payload, no secrets
--
-- Safe to run again. Roles belong to the cluster: run it in every database with an outbox, in any order with `outbox migrate`.

do $$
declare
    name text;
begin
    foreach name in array array['outbox_writer', 'outbox_relay', 'outbox_reader'] loop
        if not exists (select from pg_catalog.pg_roles where rolname = name) then
            begin
                execute pg_catalog.format('create role %I nologin', name);
            exception when duplicate_object or unique_violation then
                null; -- another database's run was faster
            end;
        end if;
    end loop;
    if pg_catalog.to_regprocedure('outbox.grant_roles()') is not null then
        perform outbox.grant_roles();
    end if;
end
$$;
