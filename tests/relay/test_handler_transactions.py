"""Transactional handlers: the effect and the end of the delivery are one transaction, checked by the lease token."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import psycopg
import pytest

from relays import Delivered, Refused, RetryLater
from relays.context import RelayContext
from relays.sinks.handler import HandlerSink, connections
from tests.claiming import claim, target
from tests.handler_deliveries import registry, until
from tests.queues import add_destination, attempts, count, open_deliveries, record_many


@pytest.fixture
def work(database):
    """A connection to a database with a table for effects, and a handler destination."""
    with database.connect() as connection:
        connection.execute("create table effects (event_id uuid not null)")
        add_destination(connection, "work", sink="handler")
        yield connection


def effects(connection) -> int:
    return connection.execute("select count(*) from effects").fetchone()[0]


INSERT = "insert into effects values (%s)"


def handlers(function=None, *, batch: bool = False):
    """Return an async and a blocking handler that record an effect and then call `function(deliveries)`."""

    def listed(argument):
        return argument if batch else [argument]

    async def in_loop(argument, connection):
        for one in listed(argument):
            await connection.execute(INSERT, [one.event_id])
        return function(argument) if function else None

    def in_thread(argument, connection):
        for one in listed(argument):
            connection.execute(INSERT, [one.event_id])
        return function(argument) if function else None

    return [in_loop, in_thread]


async def claimed(database, work, events: int, seconds: float = 10.0):
    record_many(work, events)
    runs = (await claim(database.dsn, target(work, "work", timeout=seconds), room=events)).runs
    return [delivery for run in runs for delivery in run.deliveries]


def send(database, work, function, *, events: int = 1, options=None, before=None, seconds: float = 10.0):
    """Claim `events` deliveries, send them at once through a transactional handler and return the results."""

    async def run():
        deliveries = await claimed(database, work, events, seconds)
        if before is not None:
            before(deliveries)
        sink = HandlerSink(registry(("*", function, {"transactional": True, **(options or {})})))
        await sink.open(RelayContext(database.dsn, relay_id=1, concurrency=10))
        try:
            return await asyncio.gather(*(sink.send(one) for one in deliveries))
        finally:
            await sink.close()

    return asyncio.run(run())


@pytest.mark.parametrize("kind", [0, 1])
def test_the_effect_and_the_end_of_the_delivery_are_committed_together(database, work, kind):
    [result] = send(database, work, handlers()[kind])
    assert result == Delivered(settled=True)
    assert effects(work) == 1
    assert open_deliveries(work) == []
    assert [row[2] for row in attempts(work)] == ["delivered"]
    row = work.execute(
        "select attempt, certainty::text, relay_id, started_at <= clock_timestamp(), duration_ms >= 0"
        " from outbox.attempts"
    ).fetchone()
    assert row == (1, "answered", 1, True, True)
    assert work.execute("select delivered, retried, died from outbox.outcome_counts").fetchall() == [(1, 0, 0)]


@pytest.mark.parametrize("kind", [0, 1])
def test_what_the_handler_says_is_kept(database, work, kind):
    function = handlers(lambda _: Delivered(status=201, detail="done\0"))[kind]
    [result] = send(database, work, function)
    assert (result.settled, result.status) == (True, 201)
    assert work.execute("select status, detail from outbox.attempts").fetchone() == (
        201,
        "done\N{REPLACEMENT CHARACTER}",
    )


def _raise(error):
    raise error


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda _: _raise(ValueError("x")), "handler_error"),
        (lambda _: _raise(SystemExit(1)), "handler_error"),
        (lambda _: _raise(RetryLater(5)), "retry_later"),
        (lambda _: Refused("own"), "own"),
    ],
)
def test_what_is_not_delivered_leaves_no_effect_and_the_relay_settles(database, work, kind, function, reason):
    [result] = send(database, work, handlers(function)[kind])
    assert result.reason == reason
    assert effects(work) == 0
    assert len(open_deliveries(work)) == 1
    assert attempts(work) == []


@pytest.mark.parametrize("kind", [0, 1])
def test_a_lost_lease_rolls_everything_back(database, work, kind):
    def retake(deliveries):
        work.execute("update outbox.deliveries set lease_token = lease_token + 1 where id = %s", [deliveries[0].id])

    [result] = send(database, work, handlers()[kind], before=retake)
    assert (result.reason, result.charged) == ("lease_lost", False)
    assert effects(work) == 0
    assert len(open_deliveries(work)) == 1


@pytest.mark.parametrize("kind", [0, 1])
def test_a_delivery_settled_by_another_relay_has_no_second_effect(database, work, kind):
    [result] = send(database, work, handlers()[kind], before=lambda _: work.execute("delete from outbox.deliveries"))
    assert result.reason == "lease_lost"
    assert effects(work) == 0


def misuse(statement: str):
    async def in_loop(one, connection):
        await connection.execute(INSERT, [one.event_id])
        with suppress(psycopg.Error):
            await connection.execute(statement)

    def in_thread(one, connection):
        connection.execute(INSERT, [one.event_id])
        with suppress(psycopg.Error):
            connection.execute(statement)

    return [in_loop, in_thread]


@pytest.mark.parametrize("kind", [0, 1])
def test_going_on_after_a_database_error_is_an_error_of_the_handler(database, work, kind):
    [result] = send(database, work, misuse("select 1/0")[kind])
    assert result.reason == "handler_error"
    assert "savepoint" in result.detail
    assert effects(work) == 0
    assert len(open_deliveries(work)) == 1


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("statement", ["commit", "rollback"])
def test_ending_the_transaction_is_an_error_of_the_handler_and_settles_nothing(database, work, kind, statement):
    [result] = send(database, work, misuse(statement)[kind])
    assert result.reason == "handler_error"
    assert "the relay does that" in result.detail
    assert len(open_deliveries(work)) == 1


@pytest.mark.parametrize("kind", [0, 1])
def test_a_refused_commit_leaves_no_effect(database, work, kind):
    work.execute("alter table effects add constraint once unique (event_id) deferrable initially deferred")

    async def in_loop(one, connection):
        await connection.execute(INSERT, [one.event_id])
        await connection.execute(INSERT, [one.event_id])

    def in_thread(one, connection):
        connection.execute(INSERT, [one.event_id])
        connection.execute(INSERT, [one.event_id])

    [result] = send(database, work, [in_loop, in_thread][kind])
    assert result.reason == "handler_error"
    assert result.detail.startswith("UniqueViolation")
    assert effects(work) == 0
    assert len(open_deliveries(work)) == 1


@pytest.mark.parametrize("kind", [0, 1])
def test_a_lost_connection_is_an_outcome_and_the_next_event_gets_a_new_one(database, work, kind):
    killed = []

    def end(_one):
        if not killed:
            killed.append(1)
            work.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name like '%handlers'"
            )

    first, second = send_one_by_one(database, work, handlers(end)[kind])
    assert first.reason == "handler_error"
    assert second == Delivered(settled=True)
    assert effects(work) == 1


def send_one_by_one(database, work, function):
    async def run():
        sink = HandlerSink(registry(("*", function, {"transactional": True})))
        await sink.open(RelayContext(database.dsn, relay_id=1, concurrency=10))
        results = [await sink.send(one) for one in await claimed(database, work, 2)]
        await sink.close()
        return results

    return asyncio.run(run())


@pytest.mark.parametrize("kind", [0, 1])
def test_a_batch_commits_what_succeeded_in_one_transaction(database, work, kind):
    def refuse_first(deliveries):
        return {deliveries[0]: ValueError("bad")}

    function = handlers(refuse_first, batch=True)[kind]
    results = send(database, work, function, events=5, options={"batch": 5})
    assert [isinstance(result, Delivered) for result in results] == [False, True, True, True, True]
    assert [row[0] for row in open_deliveries(work)] == [open_deliveries(work)[0][0]]
    assert count(work, "attempts") == 4
    assert work.execute("select sum(delivered) from outbox.outcome_counts").fetchone() == (4,)


@pytest.mark.parametrize("kind", [0, 1])
def test_one_lost_lease_undoes_the_batch_and_charges_nobody(database, work, kind):
    def retake(deliveries):
        work.execute("update outbox.deliveries set lease_token = lease_token + 1 where id = %s", [deliveries[1].id])

    function = handlers(batch=True)[kind]
    results = send(database, work, function, events=3, options={"batch": 3}, before=retake)
    assert [result.reason for result in results] == ["rolled_back", "lease_lost", "rolled_back"]
    assert {result.charged for result in results} == {False}
    assert effects(work) == 0
    assert len(open_deliveries(work)) == 3


def test_a_late_thread_commits_nothing_once_its_lease_is_gone(database, work):
    """A thread cannot be stopped: after the deadline it goes on, and must not take effect when settled otherwise."""
    results = []

    async def run():
        loop = asyncio.get_running_loop()
        release = asyncio.Event()
        entered = asyncio.Event()

        def handle(one, connection):
            connection.execute(INSERT, [one.event_id])
            loop.call_soon_threadsafe(entered.set)
            asyncio.run_coroutine_threadsafe(release.wait(), loop).result(20)

        sink = HandlerSink(registry(("*", handle, {"transactional": True})))
        await sink.open(RelayContext(database.dsn, relay_id=1, concurrency=10))
        [one] = await claimed(database, work, 1)
        task = asyncio.create_task(sink.send(one))
        await entered.wait()
        task.cancel()
        results.extend(await asyncio.gather(task, return_exceptions=True))
        work.execute("update outbox.deliveries set lease_token = null, leased_until = null, relay_id = null")
        release.set()
        await until(lambda: sink._threads.stuck == 0)
        await sink.close()

    asyncio.run(run())
    assert isinstance(results[0], asyncio.CancelledError)
    assert effects(work) == 0
    assert len(open_deliveries(work)) == 1


def test_a_cancelled_handler_leaves_no_effect(database, work):
    async def run():
        entered = asyncio.Event()

        async def handle(one, connection):
            await connection.execute(INSERT, [one.event_id])
            entered.set()
            await connection.execute("select pg_sleep(60)")

        sink = HandlerSink(registry(("*", handle, {"transactional": True})))
        await sink.open(RelayContext(database.dsn, relay_id=1, concurrency=10))
        [one] = await claimed(database, work, 1)
        task = asyncio.create_task(sink.send(one))
        await entered.wait()
        task.cancel()
        [ended] = await asyncio.gather(task, return_exceptions=True)
        await sink.close()
        return ended

    assert isinstance(asyncio.run(run()), asyncio.CancelledError)
    assert effects(work) == 0
    assert len(open_deliveries(work)) == 1


@pytest.mark.parametrize("kind", [0, 1])
def test_no_free_connection_in_time_burns_no_attempt(database, work, kind, monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 1)

    async def in_loop(_one, connection):
        await connection.execute("select pg_sleep(1.5)")

    def in_thread(_one, connection):
        connection.execute("select pg_sleep(1.5)")

    results = send(database, work, [in_loop, in_thread][kind], events=2, seconds=2.0)
    assert results.count(Delivered(settled=True)) == 1
    [refused] = [result for result in results if isinstance(result, Refused)]
    assert (refused.reason, refused.charged) == ("no_connection", False)


@pytest.mark.parametrize("kind", [0, 1])
def test_the_handlers_session_is_a_plain_one(database, work, kind):
    """Settings that the relay needs for its own statements must not slow down the handler's."""

    async def in_loop(_one, connection):
        return await (await connection.execute("show enable_seqscan")).fetchone()

    def in_thread(_one, connection):
        return connection.execute("show enable_seqscan").fetchone()

    seen = []

    async def spy_in_loop(one, connection):
        seen.append(await in_loop(one, connection))

    def spy_in_thread(one, connection):
        seen.append(in_thread(one, connection))

    send(database, work, [spy_in_loop, spy_in_thread][kind], events=3)
    assert seen == [("on",)] * 3
