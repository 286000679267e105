-- Reads how many pages the table of open deliveries has.
select pg_relation_size('outbox.deliveries') / current_setting('block_size')::integer as pages
