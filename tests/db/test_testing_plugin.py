"""The pytest plugin: an application tests its own outbox in three lines. Its fixture comes from the entry point."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

import outbox
from outbox.testing import adrain, arecording, drain, recording
from tests.queues import add_destination, attempts, count


@pytest.fixture
def admin(database):
    with database.connect() as admin:
        add_destination(admin, "shop", event_types=["order.*"])
        yield admin


@pytest.fixture
def connection(database, admin):
    with psycopg.connect(database.dsn) as connection:
        yield connection
        connection.rollback()


def checkout(connection, order):
    outbox.record_event(connection, "order.paid", {"order": order, "total": 1.10}, key="customer-3")


def test_the_three_lines_of_the_documentation(connection, outbox_recording):
    with outbox_recording(connection) as recorded:
        checkout(connection, order=17)
    recorded.assert_event("order.paid", payload={"order": 17, "total": 1.10}, key="customer-3")
    assert [delivery.destination for delivery in recorded.drain()] == ["shop"]


def test_only_what_the_block_recorded_is_seen_before_any_commit(admin, connection, outbox_recording):
    checkout(connection, order=1)
    with outbox_recording(connection) as recorded:
        checkout(connection, order=2)
        outbox.record_event(connection, "item.sold", headers={"x-a": "b"})
    checkout(connection, order=3)
    assert recorded.types == ["order.paid", "item.sold"]
    paid, sold = recorded.events
    assert (paid.payload, paid.destinations) == ({"order": 2, "total": Decimal("1.1")}, ("shop",))
    assert (sold.key, sold.headers, sold.destinations) == (None, {"x-a": "b"}, ())
    assert count(admin, "events") == 0


def test_what_was_rolled_back_was_not_recorded(connection, outbox_recording):
    with outbox_recording(connection) as recorded, connection.transaction() as savepoint:
        checkout(connection, order=1)
        raise psycopg.Rollback(savepoint)
    recorded.assert_nothing()


@pytest.mark.parametrize(
    "wrong",
    [
        {"payload": {"order": 2, "total": 1.10}},
        {"payload": {"order": 1}},
        {"payload": [1]},
        {"key": None},
        {"headers": {"x-a": "b"}},
        {"destinations": ()},
    ],
)
def test_a_failed_assertion_lists_what_was_recorded(connection, outbox_recording, wrong):
    with outbox_recording(connection) as recorded:
        checkout(connection, order=1)
    with pytest.raises(AssertionError, match=r"0 events are order\.paid") as failed:
        recorded.assert_event("order.paid", **wrong)
    assert "customer-3" in str(failed.value)
    with pytest.raises(AssertionError, match=r"recorded were: \['order\.paid'\]"):
        recorded.assert_nothing()


def test_two_alike_are_not_the_one_event(connection, outbox_recording):
    with outbox_recording(connection) as recorded:
        checkout(connection, order=1)
        checkout(connection, order=1)
    with pytest.raises(AssertionError, match="2 events are"):
        recorded.assert_event("order.paid")


def test_drained_deliveries_are_delivered_in_order_and_once(admin, connection):
    add_destination(admin, "mail", sink="email", event_types=[])
    for order in range(3):
        checkout(connection, order)
    outbox.record_event(connection, "order.mailed", {"to": ["ada@example.com"]}, destination="mail")
    sent = drain(connection)
    assert [(delivery.destination, delivery.type, delivery.recipient) for delivery in sent] == [
        *[("shop", "order.paid", None)] * 3,
        ("mail", "order.mailed", "ada@example.com"),
    ]
    assert [delivery.payload["order"] for delivery in sent[:3]] == [0, 1, 2]
    assert drain(connection) == []
    connection.commit()
    assert count(admin, "deliveries") == 0
    assert [row[2] for row in attempts(admin)] == ["delivered"] * 4


def test_what_is_held_or_due_later_is_not_drained(admin, connection):
    outbox.record_event(connection, "order.paid", delay=60)
    assert drain(connection) == []
    assert len(drain(connection, scheduled=True)) == 1
    admin.execute("update outbox.destinations set state = 'paused'")
    checkout(connection, order=1)
    assert drain(connection) == []


def test_a_recording_drains_its_own_events_alone(connection, outbox_recording):
    checkout(connection, order=1)
    with outbox_recording(connection) as recorded:
        outbox.record_event(connection, "order.late", delay=60)
    assert [delivery.type for delivery in recorded.drain()] == ["order.late"]
    assert [delivery.type for delivery in drain(connection)] == ["order.paid"]


def test_settings_of_the_session_change_nothing(connection, outbox_recording):
    connection.execute("set datestyle = 'SQL, DMY'; set timezone = 'Asia/Kolkata'")
    with outbox_recording(connection) as recorded:
        checkout(connection, order=1)
    assert recorded.types == ["order.paid"]


def test_a_session_of_sqlalchemy_records_alike(database, admin, outbox_recording):
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(database.dsn), poolclass=NullPool)
    with Session(engine) as session:
        with outbox_recording(session) as recorded:
            checkout(session, order=1)
        recorded.assert_event("order.paid", key="customer-3")


def test_asyncio_records_and_drains_alike(database, admin):
    async def run():
        async with await psycopg.AsyncConnection.connect(database.dsn) as connection:
            async with arecording(connection) as recorded:
                await outbox.arecord_event(connection, "order.paid", 1)
            return recorded, await adrain(connection)

    recorded, sent = asyncio.run(run())
    recorded.assert_event("order.paid", payload=1)
    assert [delivery.event_id for delivery in sent] == [recorded.events[0].id]


def test_without_the_fixture_it_is_a_function(connection):
    with recording(connection) as recorded:
        checkout(connection, order=1)
    assert recorded.types == ["order.paid"]
