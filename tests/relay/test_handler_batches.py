"""Batches: gathered from what comes at about the same time, with failures of single events."""

from __future__ import annotations

import asyncio

import pytest

from relays import Delivered, GiveUp, Refused, RetryLater
from relays.sinks.handler import HandlerSink
from tests.handler_deliveries import delivery, destination, registry, send_all, until


def both(function):
    async def in_loop(deliveries):
        return function(deliveries)

    def in_thread(deliveries):
        return function(deliveries)

    return [in_loop, in_thread]


def batched(function, size: int):
    return registry(("*", function, {"batch": size}))


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize(
    ("count", "size", "expected"), [(10, 4, [4, 4, 2]), (3, 100, [3]), (1, 1, [1]), (100, 100, [100])]
)
def test_what_comes_together_is_handled_together_and_never_more_than_the_size(kind, count, size, expected):
    sizes = []
    made = batched(both(lambda deliveries: sizes.append(len(deliveries)))[kind], size)
    assert send_all(made, *[delivery() for _ in range(count)], at_once=True) == [Delivered()] * count
    assert sorted(sizes, reverse=True) == expected  # threads begin in any order


def test_a_batch_handler_gets_a_list_in_the_order_of_sending():
    seen = []
    deliveries = [delivery() for _ in range(5)]
    send_all(batched(seen.append, 5), *deliveries, at_once=True)
    assert seen == [deliveries]
    assert isinstance(seen[0], list)


@pytest.mark.parametrize("kind", [0, 1])
def test_single_events_of_a_batch_may_fail(kind):
    def handle(deliveries):
        return {
            deliveries[1]: ValueError("bad"),
            deliveries[2]: GiveUp("never"),
            deliveries[3]: RetryLater(30),
            deliveries[4]: Refused("own"),
            deliveries[5]: None,
        }

    results = send_all(batched(both(handle)[kind], 7), *[delivery() for _ in range(7)], at_once=True)
    assert [getattr(result, "reason", None) for result in results] == [
        None, "handler_error", "gave_up", "retry_later", "own", None, None,
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [0, 1])
def test_an_exception_is_every_events_outcome(kind):
    def handle(_deliveries):
        raise ConnectionError("database away")

    results = send_all(batched(both(handle)[kind], 3), *[delivery() for _ in range(3)], at_once=True)
    assert {result.reason for result in results} == {"handler_error"}


@pytest.mark.parametrize("value", [[], "ok", 7, {"x": ValueError()}, {None: None}])
def test_a_return_value_that_says_nothing_is_an_error_of_the_handler(value):
    results = send_all(batched(lambda _: value, 2), delivery(), delivery(), at_once=True)
    assert {result.reason for result in results} == {"handler_error"}
    assert "mapping" in results[0].detail


def test_what_failed_before_goes_alone():
    """So that a poison event cannot keep its neighbours from being delivered."""
    batches = []

    def handle(deliveries):
        batches.append([one.id for one in deliveries])
        if poison in deliveries:
            raise ValueError("poison")

    poison = delivery(attempt=2)
    again, fresh, other = delivery(attempt=2), delivery(), delivery()
    results = send_all(batched(handle, 10), poison, again, fresh, other, at_once=True)
    assert [isinstance(result, Delivered) for result in results] == [False, True, True, True]
    assert sorted(batches, key=len) == [[poison.id], [again.id], [fresh.id, other.id]]


def test_destinations_do_not_share_a_batch_but_types_of_a_pattern_do():
    batches = []
    made = registry(("order.*", lambda deliveries: batches.append({one.type for one in deliveries}), {"batch": 10}))
    deliveries = [
        delivery("order.paid", destination=destination("a")),
        delivery("order.sent", destination=destination("a")),
        delivery("order.paid", destination=destination("b")),
    ]
    send_all(made, *deliveries, at_once=True)
    assert sorted(batches, key=len) == [{"order.paid"}, {"order.paid", "order.sent"}]


def test_who_was_cancelled_while_gathering_is_left_out():
    batches = []

    async def run():
        sink = HandlerSink(batched(lambda deliveries: batches.append(len(deliveries)), 3))
        first = asyncio.create_task(sink.send(delivery()))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        results = await asyncio.gather(*(sink.send(delivery()) for _ in range(2)))
        await sink.close()
        return results

    assert asyncio.run(run()) == [Delivered()] * 2
    assert batches == [2]


def test_a_batch_nobody_waits_for_is_cancelled_and_one_somebody_waits_for_goes_on():
    events = []

    async def handle(deliveries):
        events.append(len(deliveries))
        try:
            await release.wait()
        except asyncio.CancelledError:
            events.append("cancelled")
            raise

    async def run():
        global release  # noqa: PLW0603 - made in the loop that uses it
        release = asyncio.Event()
        sink = HandlerSink(batched(handle, 2))
        tasks = [asyncio.create_task(sink.send(delivery())) for _ in range(2)]
        await until(lambda: events)
        tasks[0].cancel()
        await asyncio.sleep(0)
        release.set()
        kept = await tasks[1]
        release.clear()
        others = [asyncio.create_task(sink.send(delivery())) for _ in range(2)]
        await until(lambda: len(events) == 2)
        for task in others:
            task.cancel()
        await until(lambda: "cancelled" in events)
        await asyncio.gather(*tasks, *others, return_exceptions=True)
        await sink.close()
        return kept

    assert asyncio.run(run()) == Delivered()
    assert events == [2, 2, "cancelled"]
