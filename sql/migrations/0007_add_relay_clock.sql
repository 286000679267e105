-- Adds what a relay's clock says beside the server's, so that `outbox doctor` can name a machine whose clock is wrong.
-- Locks: ACCESS EXCLUSIVE on outbox.relays for an instant; heartbeats wait, applications never touch it. Deploy before
-- the code. Breaking: no.

alter table outbox.relays add column clock_ahead_seconds double precision;
comment on column outbox.relays.clock_ahead_seconds is
    'How far the clock of the relay''s machine was ahead of the server''s at the last heartbeat, less the way of that statement; null before the first.';
