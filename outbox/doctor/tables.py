"""Checks of how tables and indexes are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from outbox.doctor.findings import Finding, problem, sound, warning
from outbox.rows import named_row, named_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

__all__ = ["INDEXES", "check_bloat", "check_indexes", "check_sequences", "check_storage", "check_tuples"]

OPTIONS: Final = {
    "fillfactor": "50",
    "autovacuum_vacuum_scale_factor": "0.01",
    "autovacuum_vacuum_threshold": "500",
    "autovacuum_vacuum_cost_delay": "0",
    "vacuum_truncate": "off",
}
INDEXES: Final = frozenset(
    {
        "attempts_event_idx",
        "dead_letters_destination_idx",
        "dead_letters_event_idx",
        "dead_letters_key_idx",
        "dead_letters_pkey",
        "deliveries_due_idx",
        "deliveries_event_idx",
        "deliveries_key_idx",
        "deliveries_pkey",
        "destinations_event_types_idx",
        "destinations_name_idx",
        "destinations_pkey",
        "events_pkey",
        "idempotency_keys_expiry_idx",
        "idempotency_keys_pkey",
        "outcome_counts_minute_idx",
        "relays_pkey",
        "transitions_destination_idx",
        "transitions_pkey",
    }
)
FEWEST_DEAD, FEWEST_UPDATES = 100_000, 10_000
HOT_SHARE = 0.9
BLOATED_BYTES, BYTES_PER_ROW = 64 * 1024 * 1024, 1000
SEQUENCE_WARNING, SEQUENCE_PROBLEM = 0.5, 0.9
MEBIBYTE = 1024 * 1024


def check_tuples(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    """Compare dead rows with live ones, and HOT updates with all: a lease must never touch an index."""
    row = named_row(connection, "inspect_deliveries")
    when = "never" if row.vacuumed_at is None else f"at {row.vacuumed_at.isoformat(timespec='seconds')}"
    seen = f"{row.dead:,} dead rows beside {row.live:,} live ones, last vacuumed {when}"
    if row.dead > FEWEST_DEAD and row.dead > 2 * row.live:
        yield warning("dead rows", seen, "see who pins the horizon; else: vacuum outbox.deliveries")
    else:
        yield sound("dead rows", seen)
    share = row.hot_updates / row.updates if row.updates else 1.0
    seen = f"{share:.0%} of {row.updates:,} updates of outbox.deliveries were HOT"
    if row.updates >= FEWEST_UPDATES and share < HOT_SHARE:
        yield warning("hot updates", seen, "look for indexes on its lease columns, and at its fillfactor")
    else:
        yield sound("hot updates", seen)


def check_storage(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    """Compare the storage options of the table with those the migration gave it."""
    row = named_row(connection, "inspect_deliveries")
    if not row.is_autovacuum_on:
        yield problem("autovacuum", "autovacuum is off", "alter system set autovacuum = on; select pg_reload_conf()")
    found = dict(option.split("=", 1) for option in row.options)
    drift = {name: value for name, value in OPTIONS.items() if found.get(name) != value}
    if drift:
        seen = ", ".join(f"{name} is {found.get(name, 'not set')}, not {value}" for name, value in drift.items())
        wanted = ", ".join(f"{name} = {value}" for name, value in drift.items())
        yield warning("storage options", seen, f"alter table outbox.deliveries set ({wanted})")
    else:
        yield sound("storage options", "as the migration set them")


def check_indexes(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    """Look for indexes that are missing, broken, or not ours."""
    found = {row.name: row for row in named_rows(connection, "list_indexes")}
    missing = sorted(INDEXES - found.keys())
    invalid = sorted(name for name, row in found.items() if not row.is_valid)
    foreign = sorted(
        name for name, row in found.items() if name not in INDEXES | {"meta_pkey", "migrations_pkey"} and row.is_valid
    )
    for name in missing:
        yield problem("indexes", f"index outbox.{name} is missing", "create it as sql/migrations says")
    for name in invalid:
        yield problem("indexes", f"index outbox.{name} is invalid", f"reindex index concurrently outbox.{name}")
    for name in foreign:
        where = f"outbox.{found[name].on_table}"
        yield warning(
            "indexes", f"index outbox.{name} on {where} is not ours", "drop it if it costs more than it helps"
        )
    if not (missing or invalid or foreign):
        yield sound("indexes", f"all {len(INDEXES)} are there and valid")


def check_bloat(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    """Look for indexes that are far larger than their rows need."""
    rows = named_rows(connection, "list_indexes")
    bloated = [row for row in rows if row.bytes > BLOATED_BYTES and row.bytes > BYTES_PER_ROW * (row.live or 0)]
    for row in bloated:
        seen = f"index outbox.{row.name} takes {row.bytes / MEBIBYTE:,.0f} MiB for {row.live or 0:,} rows"
        yield warning("index bloat", seen, f"reindex index concurrently outbox.{row.name}")
    if not bloated:
        total = sum(row.bytes for row in rows)
        yield sound("index bloat", f"none; all indexes outside partitions take {total / MEBIBYTE:,.1f} MiB")


def check_sequences(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    """Look how many numbers are left."""
    rows = named_rows(connection, "list_sequences")
    short = [row for row in rows if row.used > SEQUENCE_WARNING]
    for row in short:
        seen = f"sequence outbox.{row.name} has used {row.used:.1%} of its numbers"
        remedy = "plan for a larger type before it ends: inserts fail then"
        yield (problem if row.used > SEQUENCE_PROBLEM else warning)("sequences", seen, remedy)
    if not short:
        most = max((row.used for row in rows), default=0.0)
        yield sound("sequences", f"{len(rows)} looked at, at most {most:.2%} used")
