"""Migrating: by ten at once, killed in the middle, without rights, and with versions that do not fit (O01)."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from outbox.errors import SchemaMismatch, UsageError
from outbox.migrate import Migration, applied_version, check_schema, migrate, migrations, required_version
from tests.commands import outbox
from tests.processes import relay_process
from tests.waiting import wait_until


def run(dsn: str) -> int:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return len(migrate(connection))


def installed(connection) -> list[int]:
    rows = connection.execute("select version from outbox.migrations order by version").fetchall()
    return [row[0] for row in rows]


def known() -> list[int]:
    return [migration.version for migration in migrations()]


def with_one_more(sql: bytes) -> list[Migration]:
    return [*migrations(), Migration(required_version() + 1, "next", sql)]


@pytest.mark.parametrize("round_number", range(3))
def test_o01_ten_at_once_do_each_step_once(empty_database, round_number):
    with ThreadPoolExecutor(10) as pool:
        done = list(pool.map(run, [empty_database.dsn] * 10))
    assert sum(done) == len(known())
    with empty_database.connect() as connection:
        assert installed(connection) == known()


def test_o01_a_second_run_does_nothing(database):
    assert run(database.dsn) == 0


def test_o01_what_a_killed_migrator_left_is_repaired_by_the_next_run(empty_database):
    slow = with_one_more(b"create table outbox.half (); select pg_sleep(60)")

    def migrate_slowly():
        with psycopg.connect(empty_database.dsn, autocommit=True) as connection:
            migrate(connection, known=slow)

    process = multiprocessing.get_context("fork").Process(target=migrate_slowly)
    process.start()
    with empty_database.connect() as connection:
        sleeping = "select count(*) from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()"
        wait_until(lambda: connection.execute(sleeping).fetchone()[0], "the migrator is in the middle")
        process.kill()
        process.join()
        connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'PgSleep'")
        wait_until(lambda: not connection.execute(sleeping).fetchone()[0], "its session is gone")
        assert installed(connection) == known(), "every finished step is kept, the half one is not"
        assert connection.execute("select to_regclass('outbox.half')").fetchone() == (None,)
        quick = with_one_more(b"create table outbox.half ()")
        assert [step.name for step in migrate(connection, known=quick)] == ["next"]


def test_o01_an_upgrade_by_several_applies_only_what_is_new(database):
    newer = with_one_more(b"create table outbox.added ()")

    def upgrade(_):
        with psycopg.connect(database.dsn, autocommit=True) as connection:
            return [step.version for step in migrate(connection, known=newer)]

    with ThreadPoolExecutor(5) as pool:
        done = [version for steps in pool.map(upgrade, range(5)) for version in steps]
    assert done == [required_version() + 1]


def test_a_dry_run_changes_nothing(empty_database):
    with empty_database.connect() as connection:
        assert [step.version for step in migrate(connection, dry_run=True)] == known()
        assert applied_version(connection) is None
        assert connection.execute("select to_regnamespace('outbox')").fetchone() == (None,)


def test_o01_a_role_without_create_hears_which_right_is_missing(empty_database):
    with empty_database.connect() as connection:
        connection.execute("drop role if exists mere_mortal")
        connection.execute("create role mere_mortal login")
    with (
        psycopg.connect(empty_database.dsn_as("mere_mortal"), autocommit=True) as mortal,
        pytest.raises(UsageError, match=r"GRANT CREATE ON DATABASE .* TO mere_mortal"),
    ):
        migrate(mortal)
    with empty_database.connect() as connection:
        connection.execute("drop role mere_mortal")


def test_a_file_changed_after_it_was_applied_is_refused(database):
    changed = [Migration(1, "create_tables", b"select 1"), *migrations()[1:]]
    with database.connect() as connection, pytest.raises(SchemaMismatch, match=r"0001 .* was changed"):
        migrate(connection, known=changed)


def test_a_newer_database_is_refused(database):
    with database.connect() as connection:
        migrate(connection, known=with_one_more(b"select 1"))
        with pytest.raises(SchemaMismatch, match="upgrade outbox-relay"):
            migrate(connection)


# ---------------------------------------------------------------------- version skew


def test_a_missing_schema_is_said_with_the_remedy(empty_database):
    with empty_database.connect() as connection, pytest.raises(SchemaMismatch, match="run `outbox migrate`"):
        check_schema(connection)


def test_an_older_schema_is_refused(database):
    with database.connect() as connection:
        connection.execute("delete from outbox.migrations where version = (select max(version) from outbox.migrations)")
        with pytest.raises(SchemaMismatch, match="this code needs"):
            check_schema(connection)


@pytest.mark.parametrize("is_breaking", [False, True])
def test_a_newer_schema_is_served_unless_it_says_breaking(database, is_breaking):
    header = b"-- Breaking: yes, for a test\n" if is_breaking else b"-- Breaking: no\n"
    with database.connect() as connection:
        migrate(connection, known=with_one_more(header + b"select 1"))
        if is_breaking:
            with pytest.raises(SchemaMismatch, match="is breaking for this code"):
                check_schema(connection)
        else:
            assert check_schema(connection) == required_version() + 1


def test_a_relay_refuses_a_schema_it_cannot_serve_with_exit_code_4(empty_database):
    with relay_process(empty_database.dsn) as relay:
        assert relay.ended() == 4
    expected = f"outbox-relay: the schema outbox is missing (this code needs version {required_version()});"
    assert relay.lines == [f"{expected} run `outbox migrate`"]


def test_an_unreachable_database_is_exit_code_3_in_one_line():
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "relays", "--dsn", "postgresql://u:SECRET6@127.0.0.1:1/shop"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    assert "127.0.0.1:1" in done.stderr
    assert "SECRET6" not in done.stderr
    assert time.monotonic() - begun < 60


KNOWN = required_version()
OLDER = "delete from outbox.migrations where version = (select max(version) from outbox.migrations)"
NEWER = "insert into outbox.migrations (version, name, checksum, is_breaking) values (9999, 'next', 'x', {})"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (OLDER, f"the schema is at version {KNOWN - 1}, this code needs {KNOWN};"),
        (
            NEWER.format(True),
            f"the schema is at version 9999 and version 9999 is breaking for this code (it knows {KNOWN});",
        ),
    ],
    ids=["older", "newer and breaking"],
)
def test_every_program_refuses_a_schema_it_cannot_work_with_with_exit_code_4(database, change, says):
    with database.connect() as connection:
        connection.execute(change)
    remedy = "run `outbox migrate`" if change == OLDER else "upgrade outbox-relay"
    for command in ("status", "check"):
        done = outbox(command, dsn=database.dsn)
        assert (done.code, done.stderr) == (4, f"outbox: {says} {remedy}\n")
    with relay_process(database.dsn) as relay:
        assert relay.ended() == 4
    assert relay.lines == [f"outbox-relay: {says} {remedy}"]


def test_a_newer_schema_that_is_not_breaking_is_worked_with_but_not_migrated(database):
    with database.connect() as connection:
        connection.execute(NEWER.format(False))
    done = outbox("record", "order.paid", dsn=database.dsn)
    assert done.code == 0, done.output
    with relay_process(database.dsn) as relay:
        relay.started()
        assert relay.stop() == 0
    done = outbox("migrate", dsn=database.dsn)
    says = f"the schema is at version 9999, this code knows {KNOWN}; upgrade outbox-relay to migrate"
    assert (done.code, done.stderr) == (4, f"outbox: {says}\n")
