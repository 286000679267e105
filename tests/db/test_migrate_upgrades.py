"""Upgrading a schema in use: under load, by ten at once, killed, through a pooler, and without rights (O01)."""

from __future__ import annotations

import subprocess
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

import outbox
from outbox.database import connect
from outbox.errors import OutboxError, UsageError
from outbox.identity import adopt
from outbox.migrate import Migration, migrate, migrations, required_version
from tests.commands import outbox as run_outbox
from tests.poolers import pgbouncer
from tests.processes import relay_process
from tests.queues import add_destination
from tests.receivers import Receiver
from tests.waiting import wait_until

FIRST = 3  # with which recording and its partitions are complete


class Recorders:
    """Threads that record until they are stopped, each event in a transaction of its own."""

    def __init__(self, dsn: str) -> None:
        self.ids: set[uuid.UUID] = set()
        self.errors: list[BaseException] = []
        self._dsn = dsn
        self._stopped = threading.Event()

    def record(self, number: int) -> None:
        try:
            self._record(number)
        except BaseException as error:
            self.errors.append(error)
            raise

    def _record(self, number: int) -> None:
        with psycopg.connect(self._dsn) as connection:
            while not self._stopped.is_set():
                key = f"k{number}" if number % 2 else None
                [event_id] = outbox.record_events(connection, [outbox.Event("load.once", key=key)])
                other = outbox.record_event(connection, "load.twice", {"n": number}, idempotency_key=str(event_id))
                connection.commit()
                self.ids |= {event_id, other}

    def wait_for_more(self) -> None:
        """Return once something was recorded that had not begun yet at the call."""
        wanted = len(self.ids) + 20
        wait_until(lambda: len(self.ids) >= wanted or self.errors, "the recorders go on", 60)
        assert self.errors == []

    def stop(self) -> None:
        self._stopped.set()


@contextmanager
def recorders(dsn: str, count: int = 4):
    running = Recorders(dsn)
    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(running.record, number) for number in range(count)]
        try:
            yield running
        finally:
            running.stop()
        for future in futures:
            future.result()


def versions(connection) -> list[int]:
    return [row[0] for row in connection.execute("select version from outbox.migrations order by version").fetchall()]


def upgrade(dsn: str, known: list[Migration]) -> list[int]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return [step.version for step in migrate(connection, known=known)]


def test_o01_every_version_upgrades_to_the_next_by_ten_at_once_while_others_record(empty_database):
    upgrade(empty_database.dsn, list(migrations()[:FIRST]))
    with empty_database.connect() as connection, recorders(empty_database.dsn) as running:
        for version in range(FIRST + 1, required_version() + 1):
            running.wait_for_more()
            with ThreadPoolExecutor(10) as pool:
                done = list(pool.map(upgrade, [empty_database.dsn] * 10, [list(migrations()[:version])] * 10))
            assert sorted(done) == [[]] * 9 + [[version]]
        running.wait_for_more()
        running.stop()
    with empty_database.connect() as connection:
        assert versions(connection) == list(range(1, required_version() + 1))
        recorded = {row[0] for row in connection.execute("select id from outbox.events").fetchall()}
        assert recorded == running.ids


def test_o01_a_relay_and_recorders_go_on_while_ten_upgrade_and_one_is_killed(database):
    step = b"alter table outbox.relays add column later text; alter table outbox.destinations add column later text;"
    slow = [*migrations(), Migration(required_version() + 1, "next", step + b"select pg_sleep(600)")]
    quick = [*migrations(), Migration(required_version() + 1, "next", step)]
    with Receiver() as receiver, database.connect() as connection, relay_process(database.dsn) as relay:
        relay.started()
        settings = {"url": receiver.url(), "allow_http": True, "allow_networks": ["127.0.0.0/8"]}
        add_destination(
            connection, sink="webhook", settings={**settings, "secret": "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"}
        )
        with recorders(database.dsn, 2) as running:
            running.wait_for_more()
            killed = subprocess.Popen([sys.executable, "-c", _MIGRATOR, database.dsn, slow[-1].sql.decode()])
            sleeping = "select pid from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()"
            wait_until(lambda: connection.execute(sleeping).fetchone(), "the first migrator is half way", 60)
            killed.kill()
            killed.wait()
            connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'PgSleep'")
            with ThreadPoolExecutor(10) as pool:
                done = list(pool.map(upgrade, [database.dsn] * 10, [quick] * 10))
            assert sorted(done) == [[]] * 9 + [[required_version() + 1]]
            running.wait_for_more()
        delivered = "select count(distinct event_id) from outbox.attempts where outcome = 'delivered'"
        open_ones = "select count(*) from outbox.deliveries"
        wait_until(lambda: connection.execute(open_ones).fetchone() == (0,), "everything is delivered", 120)
        assert connection.execute(delivered).fetchone()[0] == len(running.ids)
        assert versions(connection) == list(range(1, required_version() + 2))
        assert relay.stop() == 0


_MIGRATOR = """
import sys, psycopg
from outbox.migrate import Migration, migrate, migrations, required_version
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    migrate(connection, known=[*migrations(), Migration(required_version() + 1, "next", sys.argv[2].encode())])
"""


def test_a_migration_waits_no_longer_than_others_can_and_is_tried_again(database):
    next_one = [
        *migrations(),
        Migration(required_version() + 1, "next", b"alter table outbox.events add column a text"),
    ]
    with database.connect() as reader, ThreadPoolExecutor(1) as pool:
        with reader.transaction():
            reader.execute("select from outbox.events")
            migrating = pool.submit(upgrade, database.dsn, next_one)
            waiting = "select from pg_locks where not granted and relation = 'outbox.events'::regclass"
            with database.connect() as other:
                for state in ("waits", "has given up", "waits again"):
                    wanted = state != "has given up"
                    wait_until(lambda: (other.execute(waiting).rowcount > 0) is wanted, f"the migrator {state}", 60)  # noqa: B023
                with other.transaction():
                    other.execute("set local statement_timeout = '30s'")
                    outbox.record_event(other, "order.paid")
        assert migrating.result() == [required_version() + 1]


def test_a_migration_that_never_gets_its_locks_says_so(database, monkeypatch):
    monkeypatch.setattr("outbox.migrate.LOCK_TRIES", 2)
    next_one = [
        *migrations(),
        Migration(required_version() + 1, "next", b"alter table outbox.events add column a text"),
    ]
    with database.connect() as reader, reader.transaction():
        reader.execute("select from outbox.events")
        with pytest.raises(OutboxError, match=r"other transactions hold a lock .* 2 times"):
            upgrade(database.dsn, next_one)


def test_o01_c10_ten_commands_migrate_through_a_pooler_in_transaction_mode(empty_database):
    with pgbouncer(empty_database.dsn) as through, ThreadPoolExecutor(10) as pool:
        done = list(pool.map(lambda _: run_outbox("migrate", "--json", dsn=through), range(10)))
    assert [run.code for run in done] == [0] * 10, [run.output for run in done]
    applied = sorted(step["version"] for run in done for step in run.json["applied"])
    assert applied == list(range(1, required_version() + 1))


def test_c10_what_commands_repeat_works_through_a_pooler(database):
    def repeat(number: int) -> list[int]:
        with connect(through) as connection:
            return [connection.execute("select %s::integer", [number]).fetchone()[0] for _ in range(30)]

    with pgbouncer(database.dsn) as through, ThreadPoolExecutor(6) as pool:
        assert list(pool.map(repeat, range(6))) == [[number] * 30 for number in range(6)]


@pytest.fixture
def mortal(server):
    """The name of a fresh login role without any right; dropped when the test's database is gone."""
    name = f"mortal_{uuid.uuid4().hex[:10]}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"create role {name} login")
        yield name
        admin.execute(f"drop role {name}")


@pytest.fixture
def mortals_database(mortal, empty_database):
    """An empty database that is dropped before the role is."""
    return empty_database


def test_o01_a_role_that_was_given_the_schema_migrates_without_create_on_the_database(mortal, mortals_database):
    with mortals_database.connect() as admin:
        admin.execute(f"create schema outbox authorization {mortal}")
    assert upgrade(mortals_database.dsn_as(mortal), list(migrations())) == [step.version for step in migrations()]
    with mortals_database.connect() as admin, psycopg.connect(mortals_database.dsn_as(mortal)) as owner:
        adopt(admin)
        outbox.record_event(owner, "order.paid")


@pytest.mark.parametrize("right", ["usage, create on schema outbox", "select on outbox.migrations"])
def test_o01_a_role_that_does_not_own_the_schema_hears_whose_it_is(mortal, mortals_database, right):
    upgrade(mortals_database.dsn, list(migrations()[:-1]))
    with mortals_database.connect() as admin:
        admin.execute(f"grant {right} to {mortal}")
        owner = admin.info.user
    with pytest.raises(UsageError) as refused:
        upgrade(mortals_database.dsn_as(mortal), list(migrations()))
    assert str(refused.value).endswith(
        f"run `outbox migrate` as {owner}, who owns the schema outbox, or GRANT {owner} TO {mortal}"
    )
    with mortals_database.connect() as admin:
        assert versions(admin)[-1] == required_version() - 1
