"""The claiming, settling and sweeping statements, against a real PostgreSQL."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from relays.targets import START
from tests.claiming import claim, target
from tests.queues import add_destination, open_deliveries, record, record_many


def claimed_ids(claimed) -> list[int]:
    return [delivery.id for run in claimed.runs for delivery in run.deliveries]


def test_claim_takes_the_oldest_due_first_and_never_more_than_room(database):
    with database.connect() as connection:
        add_destination(connection)
        record_many(connection, 5)
        asked = target(connection)
        claimed = asyncio.run(claim(database.dsn, asked, room=3))
        rows = open_deliveries(connection)
        assert claimed_ids(claimed) == [row[0] for row in rows[:3]]
        assert [row[3] for row in rows] == [1, 1, 1, 0, 0]
        assert asked.may_have_due, "two more are due"


def test_claim_returns_what_a_sink_needs(database):
    with database.connect() as connection:
        add_destination(connection)
        event_id = record(connection, payload={"amount": 12}, key=None)
        [run] = asyncio.run(claim(database.dsn, target(connection))).runs
        [delivery] = run.deliveries
        assert (delivery.event_id, delivery.type, delivery.body) == (event_id, "order.paid", b'{"amount": 12}')
        assert delivery.attempt == 1
        assert delivery.headers == {}
        assert delivery.recorded_at.tzinfo is not None


def test_two_claims_never_share_a_delivery(database):
    with database.connect() as connection:
        add_destination(connection)
        record_many(connection, 200)

        async def race():
            asked = [target(connection) for _ in range(8)]
            return await asyncio.gather(*(claim(database.dsn, one, room=50) for one in asked))

        ids = [number for claimed in asyncio.run(race()) for number in claimed_ids(claimed)]
        assert len(ids) == len(set(ids))


def test_claim_skips_rows_another_session_holds(database):
    with database.connect() as connection, database.connect() as other:
        add_destination(connection)
        record_many(connection, 3)
        first = open_deliveries(connection)[0][0]
        with other.transaction():
            other.execute("select from outbox.deliveries where id = %s for update", [first])
            assert first not in claimed_ids(asyncio.run(claim(database.dsn, target(connection))))


def test_claim_leaves_what_is_not_due(database):
    with database.connect() as connection:
        add_destination(connection)
        connection.execute("select outbox.record_event('a.b', due_at => now() + interval '1 hour')")
        assert claimed_ids(asyncio.run(claim(database.dsn, target(connection)))) == []


def test_the_mark_moves_exactly_with_a_backlog_and_with_a_margin_without(database):
    with database.connect() as connection:
        add_destination(connection)
        record_many(connection, 4)
        asked = target(connection)
        asyncio.run(claim(database.dsn, asked, room=2))
        assert asked.low == asked.furthest
        asyncio.run(claim(database.dsn, asked, room=10))
        assert asked.low.is_before(asked.furthest)
        assert not asked.may_have_due


# ---------------------------------------------------------------------- key-order


def test_only_the_head_of_a_key_is_claimed_with_its_contiguous_run(database):
    with database.connect() as connection:
        add_destination(connection)
        for _ in range(3):
            record(connection, key="order-1")
        claimed = asyncio.run(claim(database.dsn, target(connection), keyed=True))
        [run] = claimed.runs
        assert [delivery.id for delivery in run.deliveries] == [row[0] for row in open_deliveries(connection)]


def test_a_run_stops_before_a_follower_that_is_not_due(database):
    with database.connect() as connection:
        add_destination(connection)
        record(connection, key="k")
        connection.execute("select outbox.record_event('a.b', key => 'k', due_at => now() + interval '1 hour')")
        record(connection, key="k")
        first = open_deliveries(connection)[0][0]
        assert claimed_ids(asyncio.run(claim(database.dsn, target(connection), keyed=True))) == [first]


def test_a_run_stops_before_a_follower_somebody_else_holds(database):
    with database.connect() as connection, database.connect() as other:
        add_destination(connection)
        for _ in range(3):
            record(connection, key="k")
        first, second, _ = (row[0] for row in open_deliveries(connection))
        with other.transaction():
            other.execute("select from outbox.deliveries where id = %s for update", [second])
            assert claimed_ids(asyncio.run(claim(database.dsn, target(connection), keyed=True))) == [first]


def test_a_leased_head_blocks_its_key_and_no_other(database):
    with database.connect() as connection:
        add_destination(connection)
        record(connection, key="a")
        asyncio.run(claim(database.dsn, target(connection), keyed=True))
        record(connection, key="a")
        record(connection, key="b")
        assert claimed_ids(asyncio.run(claim(database.dsn, target(connection), keyed=True))) == [
            open_deliveries(connection)[2][0]
        ]


@pytest.mark.parametrize("on_dead", ["skip", "block"])
def test_a_dead_letter_closes_its_key_only_where_on_dead_is_block(database, on_dead):
    with database.connect() as connection:
        add_destination(connection)
        record(connection, key="k")
        connection.execute(
            "with dead as (delete from outbox.deliveries returning *)"
            " insert into outbox.dead_letters (delivery_id, event_id, destination_id, key, attempt, interruptions,"
            " reason, recorded_at, died_at) select id, event_id, destination_id, key, 1, 0, 'http_500', now(), now()"
            " from dead"
        )
        record(connection, key="k")
        claimed = asyncio.run(claim(database.dsn, target(connection, on_dead=on_dead), keyed=True))
        assert len(claimed.runs) == (1 if on_dead == "skip" else 0)


def test_the_fence_holds_back_a_later_id_while_an_earlier_one_may_still_commit(database):
    """Commit order is not id order: the id of a slow recorder is smaller, its row appears later."""
    with database.connect() as connection, database.connect() as slow:
        add_destination(connection)
        with slow.transaction():
            earlier = record(slow, key="order-1")
            later = record(connection, key="order-1")
            claimed = asyncio.run(claim(database.dsn, target(connection), keyed=True))
            assert claimed_ids(claimed) == []
            assert claimed.fenced == 1
        [run] = asyncio.run(claim(database.dsn, target(connection), keyed=True)).runs
        assert [delivery.event_id for delivery in run.deliveries] == [earlier, later]


def test_without_the_fence_the_same_interleaving_breaks_the_order(database):
    """Negative control: the usual 'no older row' test takes the later event first."""
    with database.connect() as connection, database.connect() as slow:
        add_destination(connection)
        with slow.transaction():
            record(slow, key="order-1")
            later = record(connection, key="order-1")
            taken = connection.execute(
                "select event_id::text from outbox.deliveries d where not exists (select from outbox.deliveries older"
                " where older.destination_id = d.destination_id and older.key = d.key and older.id < d.id)"
            ).fetchone()
            assert taken == (later,)


def test_the_fence_never_makes_a_recorder_wait(database):
    with database.connect() as connection, database.connect() as slow:
        add_destination(connection)
        with slow.transaction():
            record(slow, key="k")
            asyncio.run(claim(database.dsn, target(connection), keyed=True))
            connection.execute("set lock_timeout = '1s'")
            record(connection, key="k")


def test_unkeyed_claims_leave_keyed_rows_alone(database):
    with database.connect() as connection:
        add_destination(connection)
        record(connection, key="k")
        plain = record(connection)
        [run] = asyncio.run(claim(database.dsn, target(connection))).runs
        assert [delivery.event_id for delivery in run.deliveries] == [plain]


def test_a_scan_over_many_blocked_rows_is_cut_and_goes_on(database):
    with database.connect() as connection:
        add_destination(connection)
        record(connection, key="hot")
        asyncio.run(claim(database.dsn, target(connection), keyed=True))
        connection.execute("select outbox.record_event('a.b', key => 'hot') from generate_series(1, 1500)")
        behind = record(connection, key="other")
        asked = target(connection)
        first = asyncio.run(claim(database.dsn, asked, keyed=True))
        assert claimed_ids(first) == []
        assert asked.may_have_due, "the scan ended early"
        [run] = asyncio.run(claim(database.dsn, asked, keyed=True)).runs
        assert [delivery.event_id for delivery in run.deliveries] == [behind]


def test_a_key_goes_on_wherever_the_mark_is(database):
    with database.connect() as connection:
        add_destination(connection)
        event_id = record(connection, key="k")
        asked = target(connection)
        asked.low = asked.furthest = asked.low._replace(due_at=open_deliveries(connection)[0][7], id=10**9)
        assert claimed_ids(asyncio.run(claim(database.dsn, asked, keyed=True))) == []
        asked.keys_going_on.add("k")
        [run] = asyncio.run(claim(database.dsn, asked, keyed=True)).runs
        assert [delivery.event_id for delivery in run.deliveries] == [event_id]


# ---------------------------------------------------------------------- suspects


def test_suspects_are_claimed_only_as_suspects(database):
    with database.connect() as connection:
        add_destination(connection)
        record(connection)
        connection.execute("update outbox.deliveries set attempt = 1, interruptions = 1")
        asked = target(connection)
        assert claimed_ids(asyncio.run(claim(database.dsn, asked))) == []
        assert claimed_ids(asyncio.run(claim(database.dsn, asked, keyed=True))) == []
        assert len(claimed_ids(asyncio.run(claim(database.dsn, asked, suspects=True, mark=START)))) == 1


def test_claims_leave_one_lease_token_per_claim(database):
    with database.connect() as connection:
        add_destination(connection)
        record_many(connection, 4)
        asked = target(connection)
        asyncio.run(claim(database.dsn, asked, room=2))
        asyncio.run(claim(database.dsn, asked, room=2))
        tokens = [row[5] for row in open_deliveries(connection)]
        assert tokens[0] == tokens[1] != tokens[2] == tokens[3]


def test_half_a_lease_is_refused_by_the_table(database):
    with database.connect() as connection:
        add_destination(connection)
        record(connection)
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute("update outbox.deliveries set lease_token = 1")
