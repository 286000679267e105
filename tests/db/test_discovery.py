"""Which of many destinations a relay looks at when somebody rings."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

from relays import discovery
from relays.discovery import Discovery
from relays.sessions import Session
from tests.claiming import target
from tests.queues import record

MANY = discovery.PROBE_ALL + 1


@pytest.fixture
def connection(database):
    with database.connect() as connection:
        connection.execute(
            "insert into outbox.destinations (name, sink, event_types)"
            " select 'shop' || n, 'test', array['order.' || n] from generate_series(1, %s) n",
            [MANY],
        )
        yield connection


def targets_that_found_nothing(connection, count=MANY):
    found = [target(connection, f"shop{n}") for n in range(1, count + 1)]
    for each in found:
        each.may_have_due = False
    return {each.destination.id: each for each in found}


def look(database, targets, times=1) -> tuple[set[str], list[bool]]:
    """Return the names of the targets to look at after so many looks, and what each look said of more."""

    async def run():
        async with Session(database.dsn, "test") as session:
            looking = Discovery(session)
            return [await looking.look(targets) for _ in range(times)]

    more = asyncio.run(run())
    return {each.destination.name for each in targets.values() if each.may_have_due}, more


def test_of_many_destinations_only_those_with_new_deliveries_are_looked_at(database, connection):
    record(connection, "order.7")
    record(connection, "order.40")
    assert look(database, targets_that_found_nothing(connection)) == ({"shop7", "shop40"}, [False])


def test_few_destinations_are_all_looked_at(database, connection):
    record(connection, "order.7")
    targets = targets_that_found_nothing(connection, discovery.PROBE_ALL)
    names, more = look(database, targets)
    assert names == {each.destination.name for each in targets.values()}
    assert more == [False]


def test_what_is_due_later_is_awaited_and_not_looked_at_before(database, connection):
    record(connection, "order.7", due_at=datetime.now(UTC) + timedelta(hours=1))
    targets = targets_that_found_nothing(connection)
    assert look(database, targets) == (set(), [False])
    [waiting] = [each for each in targets.values() if each.next_due is not None]
    assert waiting.destination.name == "shop7"
    assert 3000 < waiting.next_due - time.monotonic() <= 3600


def test_a_key_is_noticed(database, connection):
    record(connection, "order.7", key="a")
    record(connection, "order.8")
    targets = targets_that_found_nothing(connection)
    look(database, targets)
    assert {each.destination.name for each in targets.values() if each.has_keys} == {"shop7"}


def test_a_destination_of_others_is_passed_over(database, connection):
    record(connection, "order.1")
    record(connection, f"order.{MANY}")
    connection.execute(
        "insert into outbox.destinations (name, sink, event_types) values (%s, 'test', '{x.y}')", [f"shop{MANY + 1}"]
    )
    targets = targets_that_found_nothing(connection, MANY + 1)
    del targets[target(connection, "shop1").destination.id]
    assert look(database, targets) == ({f"shop{MANY}"}, [False])


def test_more_than_one_look_reads_is_found_by_the_next(database, connection, monkeypatch):
    monkeypatch.setattr(discovery, "SCAN_LIMIT", 2)
    monkeypatch.setattr(discovery, "OVERLAP", 0)
    for number in (7, 8, 9):
        record(connection, f"order.{number}")
    targets = targets_that_found_nothing(connection)
    assert look(database, targets) == ({"shop7", "shop8"}, [True])
    assert look(database, targets_that_found_nothing(connection), times=2) == (
        {"shop7", "shop8", "shop9"},
        [True, False],
    )
