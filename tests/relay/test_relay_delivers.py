"""A real relay process against a real receiver: what is committed arrives, what is rolled back does not."""

from __future__ import annotations

import json

from tests.processes import relay_process
from tests.queues import attempts, count, record
from tests.receivers import Receiver, status
from tests.waiting import wait_until


def test_a_committed_event_arrives_and_leaves_one_history_row(database, add_webhook):
    with Receiver() as receiver, database.connect() as connection:
        add_webhook(receiver)
        with relay_process(database.dsn) as relay:
            relay.started()
            event_id = record(connection, payload={"amount": 12})
            [request] = receiver.wait_for(1)
            wait_until(lambda: attempts(connection, event_id), "the attempt row")
            assert request.header("webhook-id") == event_id
            assert json.loads(request.body)["data"] == {"amount": 12}
            assert relay.stop() == 0
        assert [row[2] for row in attempts(connection, event_id)] == ["delivered"]
        assert count(connection, "deliveries") == 0


def test_t02_only_what_is_committed_is_sent(database, add_webhook):
    with Receiver() as receiver, database.connect() as connection:
        add_webhook(receiver)
        with connection.transaction():
            kept = [record(connection)]
            connection.execute("savepoint s")
            record(connection)
            connection.execute("rollback to s")
            kept.append(record(connection))
        try:
            with connection.transaction():
                record(connection)
                raise ZeroDivisionError  # noqa: TRY301 - the transaction must roll back
        except ZeroDivisionError:
            connection.execute("create table unrelated ()")
        with relay_process(database.dsn, "--drain") as relay:
            assert relay.ended() == 0
        assert sorted(request.header("webhook-id") for request in receiver.requests) == sorted(kept)


def test_r08_failures_are_retried_until_delivered_or_dead_exactly(database, add_webhook):
    with Receiver(status(500), status(500), status(200)) as flaky, Receiver(status(500)) as broken:
        add_webhook(flaky, "flaky")
        add_webhook(broken, "broken", max_attempts=3)
        with database.connect() as connection, relay_process(database.dsn) as relay:
            event_id = record(connection)
            relay.started()
            wait_until(lambda: count(connection, "deliveries") == 0, "both settled")
            assert relay.stop() == 0
            outcomes = [(row[2], row[3]) for row in attempts(connection, event_id)]
            assert sorted(outcomes) == sorted(
                [("retry", "http_500")] * 2
                + [("delivered", None)]
                + [("retry", "http_500")] * 2
                + [("dead", "http_500")]
            )
            assert (len(flaky.requests), len(broken.requests)) == (3, 3)
            assert len({request.body for request in flaky.requests}) == 1
            assert {request.header("webhook-id") for request in flaky.requests} == {event_id}


def test_t01_a_late_commit_is_delivered_while_others_go_on(database, add_webhook):
    with Receiver() as receiver, database.connect() as connection, database.connect() as slow:
        add_webhook(receiver)
        with relay_process(database.dsn) as relay:
            relay.started()
            with slow.transaction():
                late = record(slow)
                for _ in range(200):
                    record(connection)
                receiver.wait_for(200)
                assert late not in {request.header("webhook-id") for request in receiver.requests}
            receiver.wait_for(201)
            assert receiver.requests[-1].header("webhook-id") == late
            relay.stop()


def test_two_relays_share_the_work_and_send_nothing_twice(database, add_webhook):
    with Receiver() as receiver, database.connect() as connection:
        add_webhook(receiver)
        with relay_process(database.dsn) as first, relay_process(database.dsn) as second:
            first.started()
            second.started()
            for _ in range(300):
                record(connection)
            receiver.wait_for(300)
            wait_until(lambda: count(connection, "deliveries") == 0, "all settled")
            assert (first.stop(), second.stop()) == (0, 0)
        ids = [request.header("webhook-id") for request in receiver.requests]
        assert len(ids) == len(set(ids)) == 300


def test_key_order_holds_with_retries_and_two_relays(database, add_webhook):
    answers = [status(503) if n % 7 == 0 else status(200) for n in range(400)]
    with Receiver(*answers) as receiver, database.connect() as connection:
        add_webhook(receiver, schedule=["0.05s"], max_attempts=20)
        with relay_process(database.dsn) as first, relay_process(database.dsn) as second:
            first.started()
            second.started()
            for n in range(120):
                record(connection, payload={"n": n, "key": n % 5}, key=f"order-{n % 5}")
            wait_until(lambda: count(connection, "deliveries") == 0, "all settled", 60)
            assert (first.stop(), second.stop()) == (0, 0)
        accepted: dict[int, list[int]] = {}
        for position, request in enumerate(receiver.requests):
            data = json.loads(request.body)["data"]
            if position >= len(answers) or position % 7 != 0:
                accepted.setdefault(data["key"], []).append(data["n"])
        assert {key: sorted(numbers) for key, numbers in accepted.items()} == accepted
        assert sum(map(len, accepted.values())) == 120


def test_drain_ends_at_once_when_nothing_is_due(database):
    with database.connect() as connection:
        connection.execute("select outbox.record_event('a.b', due_at => now() + interval '1 hour')")
    with relay_process(database.dsn, "--drain") as relay:
        assert relay.ended() == 0


def test_c18_a_failing_head_holds_up_its_key_and_no_other(database, add_webhook):
    """E2 to E5 wait for E1 through its retries; order-2 is not delayed; when E1 is dead, its key goes on (skip)."""
    answered: list[tuple[str, int]] = []

    async def answer(turn):
        data = json.loads(turn.request.body)["data"]
        is_first = data == {"key": "order-1", "n": 1}
        if not is_first:
            answered.append((data["key"], data["n"]))
        await status(500 if is_first else 200)(turn)

    with Receiver(answer) as receiver, database.connect() as connection:
        add_webhook(receiver, schedule=["0.5s"], max_attempts=3)
        with relay_process(database.dsn) as first, relay_process(database.dsn) as second:
            first.started()
            second.started()
            head = record(connection, payload={"key": "order-1", "n": 1}, key="order-1")
            for n in range(2, 6):
                record(connection, payload={"key": "order-1", "n": n}, key="order-1")
            for n in range(1, 5):
                record(connection, payload={"key": "order-2", "n": n}, key="order-2")
            wait_until(lambda: count(connection, "deliveries") == 0, "all settled")
            assert (first.stop(), second.stop()) == (0, 0)
        assert [row[2] for row in attempts(connection, head)] == ["retry", "retry", "dead"]
        assert answered[:4] == [("order-2", n) for n in range(1, 5)]
        assert answered[4:] == [("order-1", n) for n in range(2, 6)]


def test_r07_only_the_destination_that_failed_is_tried_again(database, add_webhook):
    with (
        Receiver() as good,
        Receiver(status(500), status(502), status(200)) as flaky,
        database.connect() as connection,
    ):
        add_webhook(good, "good")
        add_webhook(flaky, "flaky")
        with relay_process(database.dsn) as relay:
            event_id = record(connection)
            wait_until(lambda: count(connection, "deliveries") == 0, "delivered to both")
            assert relay.stop() == 0
        assert (len(good.requests), len(flaky.requests)) == (1, 3)
        assert {request.header("webhook-id") for request in (*good.requests, *flaky.requests)} == {event_id}
