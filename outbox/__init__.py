"""A transactional outbox for PostgreSQL: record an event in the transaction of your own rows."""
