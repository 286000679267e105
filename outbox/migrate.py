"""Brings the schema up to date: the only place that runs DDL.

Each migration is one transaction that holds one advisory lock, so ten migrators at once do each step once, a killed
one leaves nothing half made, and it works through a transaction pooler.
"""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors

from outbox.errors import OutboxError, SchemaMismatch, UsageError
from outbox.queries import query

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Applied", "Migration", "applied_version", "check_schema", "migrate", "migrations", "required_version"]

LOCK = "select pg_advisory_xact_lock(1330205762, 0)"
# Names in a migration must not resolve to what somebody put into a schema of the migrator's own path.
PATH = "set local search_path = pg_catalog, pg_temp"
# Whoever waits for a lock holds up all who want the table after it: give up soon, let them pass, and try again.
PATIENCE = "set local lock_timeout = '500ms'"
LOCK_TRIES = 100
PAUSE_SECONDS = 0.3
_FILE_NAME = re.compile(r"(?P<version>[0-9]{4})_(?P<name>[a-z0-9_]+)\.sql")
_BREAKING = re.compile(rb"^--.*\bBreaking: yes\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of sql/migrations. A breaking one is not served by relays that do not know it."""

    version: int
    name: str
    sql: bytes

    @property
    def checksum(self) -> str:
        """SHA-256 of the file, so that a file changed after its release is noticed."""
        return hashlib.sha256(self.sql).hexdigest()

    @property
    def is_breaking(self) -> bool:
        """Whether its header says that older code cannot work with it."""
        return _BREAKING.search(self.sql) is not None


@dataclass(frozen=True, slots=True)
class Applied:
    """One migration run, or with `seconds` None one that would run."""

    version: int
    name: str
    seconds: float | None


@cache
def migrations() -> tuple[Migration, ...]:
    """Return the migrations shipped with this package, in order."""
    found = [
        Migration(int(match["version"]), match["name"], file.read_bytes())
        for file in files("outbox").joinpath("migrations").iterdir()
        if (match := _FILE_NAME.fullmatch(file.name))
    ]
    return tuple(sorted(found, key=lambda migration: migration.version))


def required_version() -> int:
    """Return the schema version this code needs: that of its last migration."""
    return migrations()[-1].version


def migrate(
    connection: psycopg.Connection[Any],
    *,
    dry_run: bool = False,
    known: Sequence[Migration] | None = None,
) -> list[Applied]:
    """Apply what is missing, in order, and return it; with `dry_run` return what would be applied.

    `connection` is in autocommit. `known` replaces the shipped migrations, for tests of upgrades.

    Raises:
        SchemaMismatch: the database is newer than this code, or an applied file was changed since.
        UsageError: the role may not create the schema; names the missing privilege.
        OutboxError: other transactions hold a lock it needs, for about a minute and a half.
    """
    known = migrations() if known is None else known
    if dry_run:
        return [Applied(migration.version, migration.name, None) for migration in _missing(connection, known)]
    try:
        _bootstrap(connection)
        return list(_apply(connection, known))
    except errors.InsufficientPrivilege as error:
        raise UsageError(_missing_privilege(connection, error)) from None


def _bootstrap(connection: psycopg.Connection[Any]) -> None:
    """Create the schema and the table of migrations, unless they are there: looking needs no right to create."""
    if _has_migrations_table(connection):
        return
    with connection.transaction():
        connection.execute(LOCK)
        connection.execute(PATH)
        if not _has_migrations_table(connection):
            if _schema_owner(connection) is None:  # "if not exists" wants the right to create even where it does
                connection.execute("create schema outbox")
            connection.execute(query("create_migrations_table"))


def _apply(connection: psycopg.Connection[Any], known: Sequence[Migration]) -> Iterator[Applied]:
    """Run the missing migrations, one transaction each."""
    while (applied := _apply_next(connection, known)) is not None:
        yield applied


def _apply_next(connection: psycopg.Connection[Any], known: Sequence[Migration]) -> Applied | None:
    """Run the first missing migration, as often as others hold the locks it needs; nothing of a failed try stays."""
    for _ in range(LOCK_TRIES):
        try:
            return _try_next(connection, known)
        except (errors.LockNotAvailable, errors.DeadlockDetected) as error:
            reason = error.diag.message_primary
            time.sleep(PAUSE_SECONDS)
    raise OutboxError(
        f"other transactions hold a lock that the next migration needs ({reason}, {LOCK_TRIES} times);"
        " look for long ones in pg_stat_activity and run `outbox migrate` again, nothing was left half done"
    )


def _try_next(connection: psycopg.Connection[Any], known: Sequence[Migration]) -> Applied | None:
    """Run the first missing migration; which are missing is read again under the lock."""
    started = time.monotonic()
    with connection.transaction():
        connection.execute(LOCK)
        connection.execute(PATH)
        connection.execute(PATIENCE)
        missing = _missing(connection, known)
        if not missing:
            _grant_roles(connection)
            return None
        migration = missing[0]
        connection.execute(migration.sql, prepare=False)
        connection.execute(
            "insert into outbox.migrations (version, name, checksum, is_breaking) values (%s, %s, %s, %s)",
            [migration.version, migration.name, migration.checksum, migration.is_breaking],
        )
    return Applied(migration.version, migration.name, time.monotonic() - started)


def _grant_roles(connection: psycopg.Connection[Any]) -> None:
    """Grant to the roles of deploy/roles.sql that exist by now; running `outbox migrate` again is enough."""
    row = connection.execute("select to_regprocedure('outbox.grant_roles()') is not null").fetchone()
    if row is not None and row[0]:
        connection.execute("select outbox.grant_roles()")


def _missing(connection: psycopg.Connection[Any], known: Sequence[Migration]) -> list[Migration]:
    """Return the migrations not applied yet, after comparing those that are."""
    applied = _applied(connection)
    newest = max(applied, default=0)
    if newest > known[-1].version:
        raise SchemaMismatch(
            f"the schema is at version {newest}, this code knows {known[-1].version}; upgrade outbox-relay to migrate"
        )
    for migration in known:
        if applied.get(migration.version, migration.checksum) != migration.checksum:
            raise SchemaMismatch(
                f"migration {migration.version:04} ({migration.name}) was changed after it was applied;"
                " restore the released file"
            )
    return [migration for migration in known if migration.version not in applied]


def _has_migrations_table(connection: psycopg.Connection[Any]) -> bool:
    row = connection.execute("select to_regclass('outbox.migrations') is not null").fetchone()
    return row is not None and bool(row[0])


def _applied(connection: psycopg.Connection[Any]) -> dict[int, str]:
    """Return the checksums of the applied migrations by version."""
    if not _has_migrations_table(connection):
        return {}
    return dict(connection.execute("select version, checksum from outbox.migrations").fetchall())


def applied_version(connection: psycopg.Connection[Any]) -> int | None:
    """Return the version of the schema in the database, or None when it is missing."""
    return max(_applied(connection), default=None)


def check_schema(connection: psycopg.Connection[Any]) -> int:
    """Return the schema's version if this code can work with it.

    The rule: the database has at least every migration this code knows, and none beyond that is marked breaking. So
    migrate first, then replace the relays, one by one.

    Raises:
        SchemaMismatch: the schema is missing, older, or newer in a breaking way; names both versions and the remedy.
    """
    version, required = applied_version(connection), required_version()
    if version is None:
        raise SchemaMismatch(f"the schema outbox is missing (this code needs version {required}); run `outbox migrate`")
    if version < required:
        raise SchemaMismatch(f"the schema is at version {version}, this code needs {required}; run `outbox migrate`")
    row = connection.execute(
        "select min(version) from outbox.migrations where version > %s and is_breaking", [required]
    ).fetchone()
    if row is not None and row[0] is not None:
        raise SchemaMismatch(
            f"the schema is at version {version} and version {row[0]} is breaking for this code (it knows {required});"
            " upgrade outbox-relay"
        )
    return version


def _schema_owner(connection: psycopg.Connection[Any]) -> str | None:
    row = connection.execute(
        "select quote_ident(pg_get_userbyid(nspowner)) from pg_namespace where nspname = 'outbox'"
    ).fetchone()
    return None if row is None else str(row[0])


def _missing_privilege(connection: psycopg.Connection[Any], error: psycopg.Error) -> str:
    row = connection.execute("select quote_ident(current_user), quote_ident(current_database())").fetchone()
    user, database = row if row is not None else ("the role", "the database")
    owner = _schema_owner(connection)
    remedy = (
        f"GRANT CREATE ON DATABASE {database} TO {user}, or run: CREATE SCHEMA outbox AUTHORIZATION {user}"
        if owner is None
        else f"run `outbox migrate` as {owner}, who owns the schema outbox, or GRANT {owner} TO {user}"
    )
    return f"role {user} may not migrate ({error.diag.message_primary or error}); {remedy}"
