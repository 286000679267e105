-- Reads who asks, and the server's clock.
select current_user::text as user_name, pg_has_role(current_user, 'pg_monitor', 'member') as may_monitor,
    clock_timestamp() as now
