-- Counts the connections this server still has for an ordinary role, and how many it has in all.
select
    current_setting('max_connections')::integer as most,
    greatest(
        current_setting('max_connections')::integer
        - current_setting('superuser_reserved_connections')::integer
        - coalesce(current_setting('reserved_connections', true), '0')::integer
        - (select count(*) from pg_stat_activity where backend_type = 'client backend')::integer, 0) as free
