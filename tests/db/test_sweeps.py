"""Sweeps: what becomes claimable behind the low-water mark is found, and marks never pass what is open."""

from __future__ import annotations

import asyncio

import pytest

from relays.clock import ServerClock
from relays.sessions import Session
from relays.sweeps import Sweeps
from relays.targets import START
from tests.claiming import claim, target
from tests.queues import add_destination, attempts, count, open_deliveries, record, record_many


async def sweep(dsn, *targets, rounds: int = 1):
    async with Session(dsn, "test") as session:
        sweeps = Sweeps(session, ServerClock(), poll_seconds=1.0)
        suspected = []
        for _ in range(rounds):
            suspected = await sweeps.sweep(list(targets), is_busy=True)
        return suspected


def lapse(connection) -> None:
    """Let every lease lapse, as if its relay had died long ago."""
    connection.execute(
        "update outbox.deliveries set leased_until = now() - interval '1 s' where lease_token is not null"
    )


def test_t01_a_late_commit_behind_the_mark_is_found_from_the_safe_mark(database):
    with database.connect() as connection, database.connect() as slow:
        add_destination(connection)
        asked = target(connection)
        with slow.transaction():
            late = record(slow)
            for _ in range(200):
                record(connection)
            assert asyncio.run(claim(database.dsn, asked, room=200)).count == 200
            asyncio.run(sweep(database.dsn, asked, rounds=3))
        assert asyncio.run(claim(database.dsn, asked)).count == 0, "the mark is past it"
        asyncio.run(sweep(database.dsn, asked))
        claimed = asyncio.run(claim(database.dsn, asked, mark=asked.safe))
        assert [run.deliveries[0].event_id for run in claimed.runs] == [late]


def test_the_safe_mark_waits_for_every_recorder_that_was_there(database):
    with database.connect() as connection, database.connect() as slow:
        add_destination(connection)
        asked = target(connection)

        async def two_sweeps():
            async with Session(database.dsn, "test") as session:
                sweeps = Sweeps(session, ServerClock(), poll_seconds=1.0)
                await sweeps.sweep([asked], is_busy=True)
                decided = asked.safe
                with slow.transaction():
                    record(slow)
                    await sweeps.sweep([asked], is_busy=True)
                    during = asked.safe
                    await sweeps.sweep([asked], is_busy=True)
                    assert asked.safe == during, "it stays while the recorder is open"
                await sweeps.sweep([asked], is_busy=True)
                return decided, during

        decided, during = asyncio.run(two_sweeps())
        assert decided == during
        row = open_deliveries(connection)[0]
        assert asked.safe.is_before(asked.safe._replace(due_at=row[7], id=row[0]))


def test_the_safe_mark_never_passes_an_open_row(database):
    with database.connect() as connection:
        add_destination(connection)
        record_many(connection, 3)
        asked = target(connection)
        asyncio.run(claim(database.dsn, asked, room=1))
        asyncio.run(sweep(database.dsn, asked, rounds=3))
        first = open_deliveries(connection)[0]
        assert (asked.safe.due_at, asked.safe.id) == (first[7], first[0] - 1)


def test_an_unrelated_long_transaction_does_not_hold_the_mark(database):
    with database.connect() as connection, database.connect() as other:
        add_destination(connection)
        asked = target(connection)
        with other.transaction():
            other.execute("create table elsewhere ()")
            asyncio.run(sweep(database.dsn, asked))
            assert asked.safe != START


def test_c01_a_lapsed_lease_is_one_interrupted_attempt_and_a_suspect_due_at_once(database):
    with database.connect() as connection:
        add_destination(connection)
        event_id = record(connection)
        asked = target(connection)
        asyncio.run(claim(database.dsn, asked))
        lapse(connection)
        asked.may_have_due = False
        assert asyncio.run(sweep(database.dsn, asked)) == [asked]
        assert attempts(connection, event_id) == [(1, 1, "interrupted", "relay_died")]
        [row] = open_deliveries(connection)
        assert (row[3], row[4], row[5]) == (1, 1, None)
        claimed = asyncio.run(claim(database.dsn, asked, suspects=True, mark=asked.safe))
        assert claimed.runs[0].deliveries[0].attempt == 2


def test_c05_three_more_interruptions_as_a_suspect_are_its_end_with_backoff_between(database):
    with database.connect() as connection:
        add_destination(connection)
        event_id = record(connection)
        waits = []
        for interruption in range(4):
            connection.execute("update outbox.deliveries set due_at = now() - interval '1 s'")
            asked = target(connection)
            asked.may_have_due = False
            claimed = asyncio.run(claim(database.dsn, asked, suspects=interruption > 0, mark=START))
            assert claimed.count == 1
            lapse(connection)
            asyncio.run(sweep(database.dsn, asked))
            row = connection.execute(
                "select round(extract(epoch from due_at - now())) from outbox.deliveries"
            ).fetchone()
            waits.append(row and int(row[0]))
        assert waits == [0, 2, 4, None]
        assert [row[2] for row in attempts(connection, event_id)] == ["interrupted"] * 3 + ["dead"]
        reason = connection.execute("select reason, detail from outbox.dead_letters").fetchone()
        assert reason == ("relay_died", "relay died during attempt 4 (4 times)")


def test_a_living_lease_is_left_alone(database):
    with database.connect() as connection:
        add_destination(connection)
        record(connection)
        asked = target(connection)
        asyncio.run(claim(database.dsn, asked))
        asked.may_have_due = False
        assert asyncio.run(sweep(database.dsn, asked)) == []
        assert count(connection, "attempts") == 0


def test_two_relays_recover_a_lapsed_lease_once(database):
    with database.connect() as connection:
        add_destination(connection)
        record_many(connection, 50)
        asyncio.run(claim(database.dsn, target(connection), room=50))
        lapse(connection)

        async def race():
            asked = [target(connection) for _ in range(4)]
            for one in asked:
                one.may_have_due = False
            await asyncio.gather(*(sweep(database.dsn, one) for one in asked))

        asyncio.run(race())
        assert count(connection, "attempts") == 50
        assert {row[4] for row in open_deliveries(connection)} == {1}


@pytest.mark.parametrize("keyed", [False, True])
def test_a_sweep_says_whether_keys_are_in_use(database, keyed):
    with database.connect() as connection:
        add_destination(connection)
        record(connection, **({"key": "k"} if keyed else {}))
        asked = target(connection)
        asyncio.run(sweep(database.dsn, asked))
        assert asked.has_keys is keyed


def test_a_sweep_tells_when_the_next_delivery_is_due(database):
    with database.connect() as connection:
        add_destination(connection)
        connection.execute("select outbox.record_event('a.b', due_at => now() + interval '1 hour')")
        asked = target(connection)
        asyncio.run(sweep(database.dsn, asked))
        assert asked.next_due is not None
