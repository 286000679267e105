"""Settling: outcomes reach the tables together, and only under the lease they were made under."""

from __future__ import annotations

import asyncio
import time

import pytest

from outbox.model import Certainty
from relays.clock import ServerClock
from relays.leases import Leases
from relays.results import Delivered, Refused
from relays.sessions import Session
from relays.settlements import Settlements
from tests.claiming import claim, target
from tests.queues import add_destination, attempts, count, open_deliveries, record, record_many


async def settle(dsn, asked, results, *, meanwhile=None, repeats=()) -> list:
    """Claim one delivery per result, settle them in one flush, and return what was written."""
    written = []
    claimed = await claim(dsn, asked, room=len(results), keyed=asked.has_keys)
    if meanwhile is not None:
        meanwhile()
    async with Session(dsn, "test") as session:
        settlements = Settlements(
            session,
            ServerClock(),
            Leases(dsn, lambda _: None, 1.0),
            relay_id=1,
            in_flight=lambda: 0,
            written=lambda batch, _: written.extend(batch),
        )
        now = time.monotonic()
        deliveries = [delivery for run in claimed.runs for delivery in run.deliveries]
        for delivery, result in zip(deliveries, results, strict=True):
            delivery.repeats = repeats
            if result is None:
                settlements.give_back(asked, [delivery], was_started=bool(repeats))
            else:
                settlements.finish(asked, delivery, result, now - 0.25, now)
        await settlements.drain()
    return written


def test_a_delivered_delivery_leaves_the_table_and_one_history_row(database):
    with database.connect() as connection:
        add_destination(connection)
        event_id = record(connection)
        asyncio.run(settle(database.dsn, target(connection), [Delivered(status=204, detail="ok")]))
        assert open_deliveries(connection) == []
        row = connection.execute(
            "select outcome::text, certainty::text, status, detail, duration_ms between 200 and 300, relay_id,"
            " started_at between now() - interval '10 s' and now() from outbox.attempts where event_id = %s",
            [event_id],
        ).fetchall()
        assert row == [("delivered", "answered", 204, "ok", True, 1, True)]


def test_a_refused_delivery_is_due_again_later(database):
    with database.connect() as connection:
        add_destination(connection)
        event_id = record(connection)
        refused = Refused("http_500", status=500, certainty=Certainty.ANSWERED)
        asyncio.run(settle(database.dsn, target(connection, schedule=(60.0,)), [refused]))
        assert attempts(connection, event_id) == [(1, 1, "retry", "http_500")]
        wait = connection.execute("select extract(epoch from due_at - now()) from outbox.deliveries").fetchone()[0]
        assert 59 < wait <= 60 * 1.2


def test_a_permanent_refusal_moves_to_the_dead_letters_with_its_reason(database):
    with database.connect() as connection:
        add_destination(connection)
        record(connection)
        asyncio.run(settle(database.dsn, target(connection), [Refused("http_413", permanent=True, status=413)]))
        assert count(connection, "deliveries") == 0
        assert connection.execute("select reason, attempt from outbox.dead_letters").fetchall() == [("http_413", 1)]
        assert [row[2] for row in attempts(connection)] == ["dead"]


def test_r08_the_last_try_is_max_attempts_exactly(database):
    with database.connect() as connection:
        add_destination(connection)
        record(connection)
        asked = target(connection, max_attempts=3, schedule=(0.001,))
        for _ in range(3):
            connection.execute("update outbox.deliveries set due_at = now() - interval '1 s'")
            asyncio.run(settle(database.dsn, target(connection, max_attempts=3, schedule=(0.001,)), [Refused("no")]))
        assert asked.policy.max_attempts == 3
        assert [row[2] for row in attempts(connection)] == ["retry", "retry", "dead"]
        assert count(connection, "dead_letters") == 1


def test_an_interruption_is_not_charged_against_max_attempts(database):
    with database.connect() as connection:
        add_destination(connection)
        record(connection)
        connection.execute("update outbox.deliveries set attempt = 2, interruptions = 1")
        asked = target(connection, max_attempts=3, schedule=(60.0,))
        asked.may_have_due = False

        async def run():
            claimed = await claim(database.dsn, asked, suspects=True)
            assert claimed.runs[0].deliveries[0].attempt == 3

        asyncio.run(run())
        connection.execute(
            "update outbox.deliveries set lease_token = null, leased_until = null, relay_id = null,"
            " interruptions = 0, attempt = 1"
        )
        asyncio.run(settle(database.dsn, target(connection, max_attempts=3, schedule=(60.0,)), [Refused("no")]))
        assert [row[2] for row in attempts(connection)] == ["retry"]


def test_an_uncharged_refusal_uses_no_attempt(database):
    with database.connect() as connection:
        add_destination(connection)
        record(connection)
        asyncio.run(settle(database.dsn, target(connection, max_attempts=1), [Refused("smtp_535", charged=False)]))
        assert open_deliveries(connection)[0][3] == 0
        assert attempts(connection) == [(1, 1, "retry", "smtp_535")]


def test_a_released_delivery_is_due_at_once_and_leaves_no_history(database):
    with database.connect() as connection:
        add_destination(connection)
        record(connection)
        asyncio.run(settle(database.dsn, target(connection), [None]))
        [row] = open_deliveries(connection)
        assert (row[3], row[5]) == (0, None)
        assert attempts(connection) == []
        assert len(asyncio.run(claim(database.dsn, target(connection))).runs) == 1


@pytest.mark.parametrize("result", [Delivered(), Refused("http_500"), Refused("http_410", permanent=True), None])
def test_a_late_writer_changes_nothing_and_says_so_once(database, result, caplog):
    with database.connect() as connection:
        add_destination(connection)
        record(connection)

        def lose():
            connection.execute("update outbox.deliveries set lease_token = lease_token + 1000")

        before = None
        written = asyncio.run(settle(database.dsn, target(connection), [result], meanwhile=lose))
        [row] = open_deliveries(connection)
        assert row[3] == 1
        assert row[5] is not None
        assert written == []
        assert attempts(connection) == []
        assert count(connection, "dead_letters") == 0
        assert [record.message for record in caplog.records if "was lost" in record.message] != []
        assert before is None


def test_one_flush_takes_every_kind_of_outcome(database):
    with database.connect() as connection:
        add_destination(connection)
        record_many(connection, 4)
        results = [Delivered(), Refused("http_500"), Refused("http_415", permanent=True), None]
        written = asyncio.run(settle(database.dsn, target(connection), results))
        assert len(written) == 4
        assert sorted(row[2] for row in attempts(connection)) == ["dead", "delivered", "retry"]
        assert count(connection, "deliveries") == 2
        row = connection.execute("select sum(delivered), sum(retried), sum(died) from outbox.outcome_counts").fetchone()
        assert row == (1, 1, 1)


@pytest.mark.parametrize("detail", ["nul \0 inside", "lone \ud800 surrogate", "x" * 10_000, "ü" * 4096])
def test_an_answer_the_database_cannot_store_is_cleaned_before(database, detail):
    with database.connect() as connection:
        add_destination(connection)
        record_many(connection, 2)
        results = [Delivered(detail=detail), Refused("http_500", detail)]
        asyncio.run(settle(database.dsn, target(connection), results))
        details = [row[0] for row in connection.execute("select detail from outbox.attempts").fetchall()]
        assert len(details) == 2
        assert all(0 < len(stored.encode()) <= 4096 for stored in details)


def test_latency_counts_are_added_per_destination(database):
    with database.connect() as connection:
        add_destination(connection)
        record_many(connection, 3)
        asyncio.run(settle(database.dsn, target(connection), [Delivered()] * 3))
        row = connection.execute(
            "select delivered, latency_sum_ms >= latency_max_ms from outbox.outcome_counts"
        ).fetchone()
        assert row == (3, True)


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (Delivered(status=200), "delivered"),
        (Refused("timeout", certainty=Certainty.AMBIGUOUS), "retry"),
        (Refused("http_413", permanent=True), "dead"),
        (None, "released"),
    ],
)
def test_a_repeat_on_a_new_connection_is_recorded_beside_the_outcome(database, result, outcome):
    with database.connect() as connection:
        add_destination(connection)
        event_id = record(connection)
        repeat = Refused("stale_connection", "a kept connection died", certainty=Certainty.AMBIGUOUS)
        asyncio.run(settle(database.dsn, target(connection), [result], repeats=(repeat,)))
        rows = [
            (attempt, said) for _, attempt, said, reason in attempts(connection, event_id) if reason != repeat.reason
        ]
        assert rows == [(1, outcome)]
        assert [row[1:] for row in attempts(connection, event_id) if row[3] == repeat.reason] == [
            (1, "retry", "stale_connection")
        ]


def test_what_a_sink_settled_itself_is_not_written_again(database):
    with database.connect() as connection:
        add_destination(connection)
        record(connection)
        written = asyncio.run(settle(database.dsn, target(connection), [Delivered(settled=True)]))
        assert len(written) == 1
        assert attempts(connection) == []
        assert len(open_deliveries(connection)) == 1
