-- Creates the table of applied migrations; `outbox migrate` runs this under its lock before the first one.
create table if not exists outbox.migrations (
    version integer not null,
    name text not null,
    checksum text not null,
    is_breaking boolean not null,
    applied_at timestamptz not null default clock_timestamp(),
    constraint migrations_pkey primary key (version)
)
