"""Handlers: called once per attempt, in the loop or in a thread; whatever they do is an outcome."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
import time

import pytest

import relays
from outbox.model import Certainty
from relays import Delivered, GiveUp, Refused, RetryLater
from relays.sinks.handler import HandlerSink, threads
from tests.handler_deliveries import call, delivery, registry, send_all, until
from tests.waiting import wait_until


def both(function):
    """Return `function` as an async one and as a blocking one."""

    async def in_loop(one):
        return function(one)

    def in_thread(one):
        return function(one)

    return [in_loop, in_thread]


def raising(error):
    def handle(_delivery):
        raise error

    return handle


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("value", [None, False, 0, "done", object()])
def test_what_a_handler_returns_means_delivered(kind, value):
    assert call(both(lambda _: value)[kind]) == Delivered()


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize(
    "result", [Delivered(status=201, detail="ok"), Refused("no_stock", "later", retry_after=5.0, permanent=True)]
)
def test_a_handler_may_return_the_result_itself(kind, result):
    assert call(both(lambda _: result)[kind]) is result


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        BaseException("base"),
        StopIteration(),
        asyncio.CancelledError(),
        StopAsyncIteration(),
        MemoryError(),
        ExceptionGroup("g", [ValueError("x")]),
    ],
)
def test_whatever_a_handler_raises_is_an_outcome_and_the_next_one_runs(kind, error):
    failing, fine = both(raising(error))[kind], both(lambda _: None)[kind]
    first, second = send_all(registry(("bad", failing), ("good", fine)), delivery("bad"), delivery("good"))
    assert (first.reason, first.permanent, first.charged, first.certainty) == (
        "handler_error",
        False,
        True,
        Certainty.AMBIGUOUS,
    )
    assert second == Delivered()


def test_an_error_is_told_by_type_message_and_place():
    def handle(_delivery):
        secret_local = "SECRET4"  # noqa: F841 - must not be told
        raise ValueError("bad\namount")

    result = call(handle)
    assert result.detail.startswith("ValueError: bad amount (relay/test_handler_calls.py:")
    assert result.detail.endswith(" in handle)")
    assert "SECRET4" not in result.detail


def test_an_error_that_cannot_be_read_is_told_too():
    class Broken(Exception):
        def __str__(self):
            raise RuntimeError("no")

    assert "cannot be read: RuntimeError" in call(raising(Broken())).detail


@pytest.mark.parametrize("kind", [0, 1])
def test_a_handler_chooses_to_be_tried_later(kind):
    result = call(both(raising(RetryLater(90, "quota")))[kind])
    assert (result.reason, result.detail, result.wait, result.charged) == ("retry_later", "quota", 90.0, True)
    assert call(both(raising(RetryLater(5, charged=False)))[kind]).charged is False


@pytest.mark.parametrize("kind", [0, 1])
def test_a_handler_gives_up_for_good(kind):
    result = call(both(raising(GiveUp("unknown currency")))[kind])
    assert (result.reason, result.detail, result.permanent) == ("gave_up", "unknown currency", True)


def test_the_only_argument_is_the_delivery():
    seen = []
    one = delivery(headers_json=b'{"x-tenant": "7"}', key="k", attempt=3)
    call(seen.append, one)
    assert seen == [one]
    assert seen[0].payload == {"amount": 12}
    assert seen[0].headers == {"x-tenant": "7"}
    assert (seen[0].type, seen[0].key, seen[0].attempt, seen[0].event_id) == ("order.paid", "k", 3, one.event_id)


def test_an_async_handler_runs_in_the_loop_and_a_blocking_one_in_a_thread():
    seen = {}

    async def in_loop(_delivery):
        seen["loop"] = threading.current_thread()

    def in_thread(_delivery):
        seen["thread"] = threading.current_thread()

    send_all(registry(("a", in_loop), ("b", in_thread)), delivery("a"), delivery("b"))
    assert seen["loop"] is threading.main_thread()
    assert seen["thread"] is not threading.main_thread()


def test_an_object_with_an_async_call_and_a_partial_run_in_the_loop():
    seen = []

    class Callable:
        async def __call__(self, _delivery):
            seen.append(threading.current_thread())

    async def handle(prefix, _delivery):
        seen.append(threading.current_thread())

    send_all(registry(("a", Callable()), ("b", functools.partial(handle, "x"))), delivery("a"), delivery("b"))
    assert seen == [threading.main_thread()] * 2


def test_an_async_function_behind_a_plain_decorator_is_awaited():
    seen = []

    async def handle(one):
        seen.append(one)

    assert call(lambda one: handle(one)) == Delivered()  # noqa: PLW0108 - not async itself, that is the point
    assert len(seen) == 1


variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


@pytest.mark.parametrize("kind", [0, 1])
def test_context_variables_of_one_event_are_unset_for_the_next(kind):
    seen = []

    def handle(one):
        seen.append(variable.get())
        variable.set(one.event_id)

    send_all(registry(("*", both(handle)[kind])), *[delivery() for _ in range(3)])
    assert seen == ["unset"] * 3


def test_context_variables_stay_set_over_an_await_and_reach_tasks():
    seen = []

    async def inner():
        seen.append(variable.get())

    async def handle(one):
        token = variable.set(one.event_id)
        await asyncio.sleep(0)
        await asyncio.create_task(inner())
        seen.append(variable.get())
        variable.reset(token)

    one = delivery()
    assert call(handle, one) == Delivered()
    assert seen == [one.event_id] * 2


def test_context_variables_around_the_call_are_seen_by_the_handler():
    seen = []

    async def run(function):
        variable.set("outside")
        sink = HandlerSink(registry(("*", function)))
        await sink.send(delivery())
        await sink.close()

    for function in both(lambda _: seen.append(variable.get())):
        asyncio.run(run(function))
    assert seen == ["outside"] * 2


async def _cancel_when(condition, sink, one):
    task = asyncio.create_task(sink.send(one))
    await until(condition)
    task.cancel()
    return await asyncio.gather(task, return_exceptions=True)


def test_a_cancelled_async_handler_is_told_and_the_cancellation_goes_on():
    seen = []

    async def handle(_delivery):
        seen.append("started")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    sink = HandlerSink(registry(("*", handle)))
    [ended] = asyncio.run(_cancel_when(lambda: seen, sink, delivery()))
    assert isinstance(ended, asyncio.CancelledError)
    assert seen == ["started", "cancelled"]


def test_an_error_while_being_cancelled_is_still_the_cancellation():
    seen = []

    async def handle(_delivery):
        seen.append("started")
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("clean-up failed")

    sink = HandlerSink(registry(("*", handle)))
    [ended] = asyncio.run(_cancel_when(lambda: seen, sink, delivery()))
    assert isinstance(ended, asyncio.CancelledError)


def test_a_cancellation_inside_the_handler_is_its_error_not_ours():
    async def handle(_delivery):
        task = asyncio.create_task(asyncio.sleep(60))
        task.cancel()
        await task

    assert call(handle).reason == "handler_error"


def test_a_handlers_own_time_limit_is_its_error():
    async def handle(_delivery):
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()

    assert call(handle).detail.startswith("TimeoutError")


def test_threads_run_at_once_and_are_used_again():
    names = set()
    together = threading.Barrier(8)

    def meet(_delivery):
        names.add(threading.get_ident())
        together.wait(10)

    def alone(_delivery):
        names.add(threading.get_ident())

    made = registry(("meet", meet), ("alone", alone))
    assert send_all(made, *[delivery("meet") for _ in range(8)], at_once=True) == [Delivered()] * 8
    names.clear()
    send_all(made, *[delivery("alone") for _ in range(20)])
    assert len(names) == 1


def test_a_hanging_thread_stops_neither_others_nor_the_end(monkeypatch):
    monkeypatch.setattr("relays.sinks.handler.sink.MOST_STUCK_THREADS", 2)
    started, release = [], threading.Event()

    def hang(_delivery):
        started.append(1)
        release.wait(60)

    def fine(_delivery):
        return None

    async def run():
        sink = HandlerSink(registry(("hang", hang), ("fine", fine)))
        for count in (1, 2):
            await _cancel_when(lambda count=count: len(started) == count, sink, delivery("hang"))
        stuck = await sink.send(delivery("fine"))
        release.set()
        await until(lambda: not sink._threads.stuck)
        freed = await sink.send(delivery("fine"))
        await sink.close()
        return stuck, freed

    stuck, freed = asyncio.run(run())
    assert (stuck.reason, stuck.charged, stuck.certainty) == ("threads_stuck", False, Certainty.NOT_SENT)
    assert freed == Delivered()


def test_threads_end_when_the_sink_is_closed():
    before = threading.active_count()
    send_all(registry(("*", lambda _: None)), *[delivery() for _ in range(5)], at_once=True)
    wait_until(lambda: threading.active_count() <= before, "the threads' end")


def test_a_thread_that_outlives_the_loop_ends_quietly(capsys):
    entered, release = threading.Event(), threading.Event()

    def handle(_delivery):
        entered.set()
        release.wait(10)

    async def run():
        pool = threads.Threads(10)
        task = asyncio.create_task(pool.run(lambda: handle(None)))
        await until(entered.is_set)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    before = threading.active_count()
    release.set()
    wait_until(lambda: threading.active_count() < before, "the thread's end")
    assert capsys.readouterr().err == ""


def test_a_blocking_handler_does_not_block_the_loop():
    ticks = []

    async def run():
        sink = HandlerSink(registry(("*", lambda _: time.sleep(0.2))))
        sending = asyncio.create_task(sink.send(delivery()))
        while not sending.done():
            ticks.append(1)
            await asyncio.sleep(0.005)
        await sink.close()

    asyncio.run(run())
    assert len(ticks) > 5


def test_an_event_without_a_handler_waits_uncharged():
    result = send_all(registry(("order.paid", lambda _: None)), delivery("order.lost"))[0]
    assert (result.reason, result.charged, result.permanent) == ("no_handler", False, False)
    assert result.retry_after > 0
    assert "--app" in result.detail


def test_the_public_names_are_those_of_the_package():
    assert {"handler", "RetryLater", "GiveUp", "Delivery", "Delivered", "Refused"} <= set(relays.__all__)
