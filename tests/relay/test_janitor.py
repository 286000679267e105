"""The upkeep of the relays: by one of them at a time, and as a role without any DDL."""

from __future__ import annotations

import asyncio

import pytest

from relays import janitor
from relays.janitor import Janitor


def test_one_relay_has_the_upkeep_until_its_lease_ends(database):
    with database.connect() as connection:
        assert asyncio.run(Janitor(database.dsn, 1).round())
        assert not asyncio.run(Janitor(database.dsn, 2).round())
        assert asyncio.run(Janitor(database.dsn, 1).round()), "it renews its own"
        connection.execute("update outbox.meta set janitor_until = now()")
        assert asyncio.run(Janitor(database.dsn, 2).round())


def test_the_upkeep_makes_partitions_that_are_missing(database):
    with database.connect() as connection:
        name = connection.execute("select max(name) from outbox.partitions where name like 'attempts_2%'").fetchone()[0]
        connection.execute(f"drop table outbox.{name}")
        assert asyncio.run(Janitor(database.dsn, 1).round())
        found = connection.execute("select count(*) from outbox.partitions where name = %s", [name]).fetchone()
        assert found == (1,)


def test_c12_an_upkeep_that_gets_no_answer_ends_with_its_lease(database, monkeypatch):
    monkeypatch.setattr(janitor, "LEASE_SECONDS", 1.0)
    with database.connect() as blocker, blocker.transaction():
        blocker.execute("lock table outbox.meta in access exclusive mode")
        with pytest.raises(TimeoutError):
            asyncio.run(Janitor(database.dsn, 1).round())
