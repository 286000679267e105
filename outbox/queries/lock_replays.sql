-- Waits until no other replay is in the middle of a batch; until the end of the transaction no other one is.
select pg_advisory_xact_lock(1330205764, 0)
