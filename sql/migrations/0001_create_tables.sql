-- Creates the tables of the outbox: events, deliveries, attempts, dead letters, destinations, relays and their small companions.
-- Locks: none that an application could wait for, everything here is new. Deploy before the code. Breaking: no, first release.

comment on schema outbox is 'Transactional outbox: what an application wants to tell the outside world, and what became of it.';

-- ------------------------------------------------------------------ words

create type outbox.outcome as enum (
    'delivered', 'retry', 'dead', 'interrupted', 'released', 'redriven', 'replayed', 'discarded');
comment on type outbox.outcome is 'How one attempt ended, or what an operator did; one row of outbox.attempts each.';

create type outbox.certainty as enum ('not_sent', 'ambiguous', 'answered');
comment on type outbox.certainty is
    'What is known about the other side: it saw nothing, it may have acted, it gave an answer.';

create type outbox.destination_state as enum ('active', 'tripped', 'paused', 'disabled');
comment on type outbox.destination_state is
    'Only active destinations are claimed for; with the others deliveries are held: nothing lost, no attempt used.';

-- A smallest uuid v7 of a moment: bounds of the partitions of outbox.events, and of searches by time.
create function outbox.uuid_floor(moment timestamptz) returns uuid
    language sql immutable strict parallel safe
    set search_path = pg_catalog, pg_temp
as $$
    select (lpad(to_hex((extract(epoch from moment) * 1000)::bigint), 12, '0') || '70008000000000000000')::uuid
$$;
comment on function outbox.uuid_floor(timestamptz) is 'The smallest uuid v7 of that millisecond; uuid v7 sorts by time.';

-- The slot of an ordering key in the key fence: 256 slots bound the lock table, whatever the number of keys.
create function outbox.key_slot(key text) returns integer
    language sql immutable strict parallel safe
    return pg_catalog.hashtext(key) & 255;
comment on function outbox.key_slot(text) is 'The advisory-lock slot (0 to 255) that fences an ordering key, see sql/README.md.';

-- ------------------------------------------------------------------ events

create table outbox.events (
    id uuid not null,
    type text not null,
    payload jsonb not null,
    headers jsonb not null default '{}',
    key text,
    recorded_at timestamptz not null,
    constraint events_pkey primary key (id)
    -- No checks: PostgreSQL parses them anew in every insert, 10 of the 42 us of recording an event. Only outbox.record_event
    -- and outbox.record_events may write here, and outbox.event_fault holds the rules.
) partition by range (id);
comment on table outbox.events is
    'The facts applications recorded. Append-only, never updated. Partitioned by id, which sorts by time, so retention drops a partition.';
comment on column outbox.events.id is 'uuid v7, made by the server; the identity every receiver sees (promise same-identity).';
comment on column outbox.events.key is 'Ordering key: events with the same key reach a destination in order (promise key-order).';
comment on column outbox.events.headers is 'Producer headers, and the trace context captured at record time.';

create table outbox.events_default partition of outbox.events default;
comment on table outbox.events_default is 'Takes what no other partition takes: a missing partition never fails a business transaction.';

-- ------------------------------------------------------------------ deliveries

create table outbox.deliveries (
    id bigint generated always as identity,
    event_id uuid not null,
    destination_id integer not null,
    key text,
    recipient text,
    due_at timestamptz not null,
    attempt integer not null default 0,
    interruptions integer not null default 0,
    lease_token bigint,
    leased_until timestamptz,
    relay_id bigint,
    recorded_at timestamptz not null,
    constraint deliveries_pkey primary key (id),
    constraint deliveries_leased_means_token check (
        (lease_token is null) = (leased_until is null) and (lease_token is null) = (relay_id is null)),
    constraint deliveries_interruptions_are_attempts check (interruptions between 0 and attempt)
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off
);
comment on table outbox.deliveries is
    'Open deliveries: one event for one destination. Narrow, without payload; a row is deleted when delivered and moved when dead. No column that a claim changes is in any index or index predicate, and half of each page is free: a lease is a HOT update.';
comment on column outbox.deliveries.recipient is 'The one mailbox of an e-mail that this delivery is for; null elsewhere.';
comment on column outbox.deliveries.due_at is 'Not sent before. The time of recording, or later for delays and retries.';
comment on column outbox.deliveries.attempt is 'Tries so far, the running one included.';
comment on column outbox.deliveries.interruptions is
    'Tries during which the relay died. They do not count against max_attempts; with the first the delivery is a suspect.';
comment on column outbox.deliveries.lease_token is 'Fresh at every claim; each write to a leased delivery must match it (promise lease-token).';
comment on column outbox.deliveries.leased_until is 'After this another relay takes the delivery and writes the attempt as interrupted.';

create index deliveries_due_idx on outbox.deliveries (destination_id, due_at, id);
comment on index outbox.deliveries_due_idx is 'Claims, sweeps, backlog per destination.';
create index deliveries_event_idx on outbox.deliveries (event_id);
comment on index outbox.deliveries_event_idx is 'Status of one event; retention looks for stragglers.';
create index deliveries_key_idx on outbox.deliveries (destination_id, key, id) where key is not null;
comment on index outbox.deliveries_key_idx is 'Head and followers of an ordering key.';

create sequence outbox.lease_token_seq;
comment on sequence outbox.lease_token_seq is 'One token per claim (promise lease-token).';

-- ------------------------------------------------------------------ attempts

create table outbox.attempts (
    delivery_id bigint not null,
    event_id uuid not null,
    destination_id integer not null,
    recipient text,
    attempt integer not null,
    started_at timestamptz not null,
    duration_ms integer not null default 0,
    outcome outbox.outcome not null,
    reason text,
    certainty outbox.certainty,
    status integer,
    detail text,
    relay_id bigint,
    constraint attempts_attempt_is_not_negative check (attempt >= 0),
    constraint attempts_duration_is_not_negative check (duration_ms >= 0),
    constraint attempts_detail_is_short check (octet_length(detail) <= 4096)
) partition by range (started_at);
comment on table outbox.attempts is
    'History, append-only: one row for each request a sink saw (promise every-try-recorded) and one for each operator action. Delivered is read from here.';
comment on column outbox.attempts.reason is 'A short code: http_500, timeout, redirect_not_followed, relay_died, …';
comment on column outbox.attempts.status is 'The status or reply code of the other side, if it gave one.';
comment on column outbox.attempts.detail is 'At most 4 KiB, redacted: what the other side said, or what was done and by whom.';

create table outbox.attempts_default partition of outbox.attempts default;
comment on table outbox.attempts_default is 'Takes what no other partition takes: a missing partition never fails a settle.';
create index attempts_event_idx on outbox.attempts (event_id);
comment on index outbox.attempts_event_idx is 'The timeline of one event.';

create table outbox.outcome_counts (
    destination_id integer not null,
    minute timestamptz not null,
    delivered integer not null default 0,
    retried integer not null default 0,
    died integer not null default 0,
    latency_sum_ms bigint not null default 0,
    latency_max_ms bigint not null default 0
);
comment on table outbox.outcome_counts is
    'Outcomes per destination and minute, appended by every settle: status, metrics and charts never count history. Latency is recording to settling of what was delivered.';
create index outcome_counts_minute_idx on outbox.outcome_counts (minute, destination_id);
comment on index outbox.outcome_counts_minute_idx is 'The last hour of every destination.';

-- ------------------------------------------------------------------ dead letters

create table outbox.dead_letters (
    delivery_id bigint not null,
    event_id uuid not null,
    destination_id integer not null,
    key text,
    recipient text,
    attempt integer not null,
    interruptions integer not null,
    reason text not null,
    detail text,
    recorded_at timestamptz not null,
    died_at timestamptz not null,
    constraint dead_letters_pkey primary key (delivery_id)
);
comment on table outbox.dead_letters is 'Deliveries given up on: kept until redriven or discarded, never removed by retention.';
create index dead_letters_destination_idx on outbox.dead_letters (destination_id, died_at, delivery_id);
comment on index outbox.dead_letters_destination_idx is 'Lists and bulk redrives of one destination, oldest first.';
create index dead_letters_event_idx on outbox.dead_letters (event_id);
comment on index outbox.dead_letters_event_idx is 'Status of one event.';
create index dead_letters_key_idx on outbox.dead_letters (destination_id, key, delivery_id) where key is not null;
comment on index outbox.dead_letters_key_idx is 'Keys that wait for a dead letter where on_dead is block.';

-- ------------------------------------------------------------------ destinations, relays, idempotency keys

create table outbox.destinations (
    id integer generated always as identity,
    name text not null,
    sink text not null,
    event_types text[] not null,
    settings jsonb not null default '{}',
    policy jsonb not null default '{}',
    state outbox.destination_state not null default 'active',
    state_reason text,
    state_changed_at timestamptz not null default clock_timestamp(),
    held_until timestamptz,
    version bigint not null default 0,
    created_at timestamptz not null default clock_timestamp(),
    removed_at timestamptz,
    constraint destinations_pkey primary key (id),
    constraint destinations_name_is_a_word check (name ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    constraint destinations_sink_is_a_word check (sink ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    constraint destinations_settings_are_an_object check (jsonb_typeof(settings) = 'object'),
    constraint destinations_policy_is_an_object check (jsonb_typeof(policy) = 'object')
);
comment on table outbox.destinations is 'Named targets: a sink, its settings and a delivery policy. Changed on transitions only, no counters here.';
comment on column outbox.destinations.event_types is 'Patterns of the types it gets: *, order.*, order.paid. Producers only reach it by name where this is empty.';
comment on column outbox.destinations.settings is 'Settings of the sink; secrets are references (env:NAME, file:PATH) or inline, and shown nowhere.';
comment on column outbox.destinations.held_until is 'Nothing is claimed before: Retry-After, or the next probe of a tripped destination.';
comment on column outbox.destinations.version is 'Fresh at every change; relays reload when the sum over all destinations changes.';
comment on column outbox.destinations.removed_at is 'Removed destinations get no new deliveries; their open ones are held until discarded.';
create unique index destinations_name_idx on outbox.destinations (name) where removed_at is null;
comment on index outbox.destinations_name_idx is 'A name is free again once its destination is removed.';
create index destinations_event_types_idx on outbox.destinations using gin (event_types);
comment on index outbox.destinations_event_types_idx is 'Routing of a recorded event when there are many destinations.';

create sequence outbox.destinations_version_seq;
create function outbox.touch_destination() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    new.version := nextval('outbox.destinations_version_seq');
    if tg_op = 'UPDATE' and new.state is distinct from old.state then
        new.state_changed_at := clock_timestamp();
    end if;
    return new;
end
$$;
comment on function outbox.touch_destination() is 'Gives a changed destination a fresh version and stamps transitions.';
create trigger destinations_touch before insert or update on outbox.destinations
    for each row execute function outbox.touch_destination();

create table outbox.relays (
    id bigint generated always as identity,
    name text not null,
    host text not null,
    pid integer not null,
    version text not null,
    state text not null default 'running',
    doorbell text not null default 'polling',
    concurrency integer not null,
    in_flight integer not null default 0,
    serves jsonb not null default '{}',
    started_at timestamptz not null default clock_timestamp(),
    heartbeat_at timestamptz not null default clock_timestamp(),
    stopped_at timestamptz,
    constraint relays_pkey primary key (id),
    constraint relays_state_is_known check (state in ('running', 'stopping', 'stopped')),
    constraint relays_doorbell_is_known check (doorbell in ('listening', 'polling'))
) with (fillfactor = 50);
comment on table outbox.relays is 'One row per start of a relay process: a fresh id each time, so that a reused host name keeps no ghost alive.';
comment on column outbox.relays.serves is 'What it can deliver: {"destinations": [names] or null for all, "handlers": [type patterns]}.';
comment on column outbox.relays.heartbeat_at is 'Renewed every few seconds; a relay is alive while this is younger than three renewals (15 s).';

create table outbox.idempotency_keys (
    key text not null,
    event_id uuid not null,
    fingerprint bytea not null,
    expires_at timestamptz not null,
    constraint idempotency_keys_pkey primary key (key),
    constraint idempotency_keys_key_is_short check (key <> '' and length(key) <= 255)
);
comment on table outbox.idempotency_keys is 'The producers'' own dedupe keys: the same one twice records one event.';
comment on column outbox.idempotency_keys.fingerprint is 'SHA-256 of the content: the same key with other content is refused (OB001).';
create index idempotency_keys_expiry_idx on outbox.idempotency_keys (expires_at);
comment on index outbox.idempotency_keys_expiry_idx is 'Upkeep removes expired keys.';

create table outbox.meta (
    only_row boolean not null default true,
    system_identifier bigint not null,
    database_oid oid not null,
    installed_at timestamptz not null default clock_timestamp(),
    janitor_relay_id bigint,
    janitor_until timestamptz not null default '-infinity',
    constraint meta_pkey primary key (only_row),
    constraint meta_has_one_row check (only_row)
);
comment on table outbox.meta is
    'Which cluster and database this outbox belongs to: on a restored copy they differ, and relays refuse to send until `outbox adopt`.';
comment on column outbox.meta.janitor_until is
    'The lease of the upkeep: until then no other relay does it. A row and not a session lock, so that it works through a pooler.';
insert into outbox.meta (system_identifier, database_oid)
    select c.system_identifier, d.oid
    from pg_catalog.pg_control_system() c, pg_catalog.pg_database d
    where d.datname = current_database();
