"""Fixtures of the database tests: the roles of deploy/roles.sql, and logins that are members of them."""

from __future__ import annotations

import uuid

import psycopg
import pytest
from psycopg import sql

from tests.queues import add_destination


@pytest.fixture
def admin_of_roles(database, root):
    """A superuser in a database with the three roles of deploy/roles.sql and one destination."""
    with database.connect() as admin:
        admin.execute((root / "deploy" / "roles.sql").read_bytes())
        add_destination(admin, settings={"secret": "SECRET-SETTING"})
        yield admin


@pytest.fixture
def login_to():
    """Connect to a database as a fresh login role that is a member of the given role (or of none)."""
    made = []

    def connect(database, admin, member_of) -> psycopg.Connection:
        name = f"test_{uuid.uuid4().hex[:10]}"
        admin.execute(sql.SQL("create role {} login").format(sql.Identifier(name)))
        if member_of is not None:
            admin.execute(sql.SQL("grant {} to {}").format(sql.Identifier(member_of), sql.Identifier(name)))
        connection = psycopg.connect(database.dsn_as(name), autocommit=True)
        made.append((name, connection, database))
        return connection

    yield connect
    for name, connection, database in made:
        connection.close()
        with database.connect() as admin:
            admin.execute(sql.SQL("drop owned by {} cascade").format(sql.Identifier(name)))
            admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


@pytest.fixture
def login(database, admin_of_roles, login_to):
    """Connect to the test's database as a fresh login role that is a member of the given role (or of none)."""
    return lambda member_of=None: login_to(database, admin_of_roles, member_of)
