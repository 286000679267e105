-- Reads the server's clock (promise database-time).
select clock_timestamp() as now
