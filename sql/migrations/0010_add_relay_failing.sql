-- Adds why a relay does not work although it is alive, so that `outbox status` can say it: its heartbeat has a connection
-- of its own, and goes on while claims are refused.
-- Locks: ACCESS EXCLUSIVE on outbox.relays for an instant; heartbeats wait, applications never touch it. Deploy before
-- the code. Breaking: no.

alter table outbox.relays add column failing text;
comment on column outbox.relays.failing is 'Why it could not claim or settle at its last heartbeat; null while it works.';
