"""A relay works as outbox_relay: no superuser, no DDL, not the owner of anything (X02)."""

from __future__ import annotations

import asyncio

import pytest

from relays.janitor import Janitor
from tests.processes import relay_process
from tests.queues import attempts, record
from tests.receivers import Receiver, status
from tests.waiting import wait_until


@pytest.fixture
def relay_dsn(database, root):
    """The DSN of a role with the rights of deploy/roles.sql and no others."""
    with database.connect() as connection:
        connection.execute((root / "deploy" / "roles.sql").read_text())
        connection.execute("select outbox.grant_roles()")
        connection.execute("drop role if exists relay_login")
        connection.execute("create role relay_login login in role outbox_relay")
    yield database.dsn_as("relay_login")
    with database.connect() as connection:
        connection.execute("drop role relay_login")


def test_x02_a_relay_delivers_with_the_documented_rights_alone(database, relay_dsn, add_webhook):
    with Receiver(status(500), status(200)) as receiver, database.connect() as connection:
        add_webhook(receiver)
        with relay_process(relay_dsn) as relay:
            relay.started()
            event_id = record(connection, key="k")
            wait_until(lambda: len(attempts(connection, event_id)) == 2, "both attempts")
            assert relay.stop() == 0
        assert [row[2] for row in attempts(connection, event_id)] == ["retry", "delivered"]
        assert "permission denied" not in relay.output


def test_x02_the_upkeep_needs_no_ownership(relay_dsn):
    assert asyncio.run(Janitor(relay_dsn, 1).round())
