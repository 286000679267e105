"""What both HTTP engines promise, on real loopback receivers."""

from __future__ import annotations

import asyncio
import logging
import resource
import threading

import pytest

from outbox.model import Certainty
from relays.http.addresses import Guard, parse_networks
from relays.http.aiohttp_engine import AiohttpEngine
from relays.http.engine import KEEP_BYTES, Answer, Failure, Phase, Request, Route
from relays.http.url import parse_url
from relays.sinks.webhook.engines import open_engine
from tests.receivers import (
    Receiver,
    answer_bytes,
    bomb,
    closing,
    delayed,
    dripping,
    endless,
    hanging,
    raw,
    reset,
    status,
)

GUARD = Guard(parse_networks(["127.0.0.0/8", "::1/128"], "allow_networks"))
OK = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture(params=["aiohttp", "httpx"])
def engine(request):
    return request.param


def post(receiver: Receiver, body: bytes = b"{}", **values) -> Request:
    return Request(route(receiver.url()), {"content-type": "application/json"}, body, **values)


def route(url: str, **values) -> Route:
    return Route(parse_url(url, "url"), guard=GUARD, **values)


def exchanges(engine: str, *requests: Request, seconds: float = 5.0, at_once: bool = False):
    """Send `requests` through one engine, one after the other or all at once."""

    async def run():
        opened = open_engine(engine)
        try:
            if at_once:
                return await asyncio.gather(*(opened.exchange(request, seconds) for request in requests))
            return [await opened.exchange(request, seconds) for request in requests]
        finally:
            await opened.close()

    return asyncio.run(run())


def exchange(engine: str, script, *, seconds: float = 5.0, **values):
    """Play `script` once and return the outcome."""
    with Receiver(script) as receiver:
        return exchanges(engine, post(receiver, **values), seconds=seconds)[0]


def test_request_arrives_byte_for_byte_and_with_no_header_of_the_librarys_own(engine):
    body = bytes(range(256)) * 10
    with Receiver(status(200)) as receiver:
        fixed = {"user-agent": "us", "accept": "*/*", "accept-encoding": "identity"}
        to = route(receiver.url("/a%2Fb?x=%C3%A9&y=+"), headers=fixed)
        exchanges(engine, Request(to, {"content-type": "text/x", "x-a": "b"}, body))
        received = receiver.requests[0]
    assert (received.method, received.target, received.body) == ("POST", "/a%2Fb?x=%C3%A9&y=+", body)
    assert {name.lower(): value for name, value in received.headers} == {
        "host": f"127.0.0.1:{receiver.port}",
        "user-agent": "us",
        "accept": "*/*",
        "accept-encoding": "identity",
        "content-type": "text/x",
        "x-a": "b",
        "content-length": str(len(body)),
    }
    assert len(received.headers) == 7


def test_empty_body_has_a_length(engine):
    with Receiver(status(200)) as receiver:
        exchanges(engine, post(receiver, b""))
        assert receiver.requests[0].header("content-length") == "0"


@pytest.mark.parametrize("code", [200, 201, 204, 205, 206, 226, 299, 300, 304, 400, 404, 418, 451, 499, 500, 503, 511])
def test_status_headers_and_body_come_back(engine, code):
    body = b"" if code in {204, 205, 304} else b"hello"
    answer = exchange(engine, status(code, body, x_request_id="7", retry_after="5"))
    assert isinstance(answer, Answer)
    assert (answer.status, answer.body, answer.is_cut) == (code, body, False)
    assert answer.headers["retry-after"] == "5"
    assert answer.headers["x-request-id"] == "7"
    assert not answer.connection_reused
    assert answer.peer == "127.0.0.1"
    assert answer.timings.connected is not None
    assert answer.timings.first_byte is not None
    assert 0 < answer.timings.connected <= answer.timings.first_byte <= answer.timings.total


@pytest.mark.parametrize("code", [100, 102, 103])
def test_informational_answers_are_skipped(engine, code):
    answer = exchange(engine, raw(f"HTTP/1.1 {code} Wait\r\n\r\n".encode() * 3 + answer_bytes(201)))
    assert isinstance(answer, Answer)
    assert answer.status == 201


def test_only_informational_answers_are_no_answer(engine):
    failure = exchange(engine, raw(b"HTTP/1.1 103 Early\r\n\r\n" * 100), seconds=0.3)
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.certainty) == ("timeout", Certainty.AMBIGUOUS)


def test_switching_protocols_is_an_answer_and_ends_the_connection(engine):
    with Receiver(raw(b"HTTP/1.1 101 Switch\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"), status(200)) as receiver:
        first, second = exchanges(engine, post(receiver), post(receiver), seconds=2)
        assert isinstance(first, Answer)
        assert first.status == 101
        assert isinstance(second, Answer)
        assert not second.connection_reused


@pytest.mark.parametrize("code", [600, 700, 999])
def test_status_beyond_599_is_a_status(engine, code):
    answer = exchange(engine, status(code))
    assert isinstance(answer, Answer)
    assert answer.status == code


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 99\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"<html>hello</html>\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"\x16\x03\x01\x02\x00" * 20,
        b"\0" * 100,
        b"\xff\xfe\r\n\r\n",
        b"220 smtp.example ESMTP\r\n",
    ],
)
def test_w09_garbage_is_a_failure_that_may_have_been_processed(engine, garbage):
    failure = exchange(engine, raw(garbage, close=True))
    assert isinstance(failure, Failure)
    assert failure.reason in {"bad_response", "disconnected"}
    assert failure.certainty is Certainty.AMBIGUOUS
    assert failure.has_answered


def test_silent_close_is_a_disconnect_without_an_answer(engine):
    failure = exchange(engine, closing())
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.certainty) == ("disconnected", Certainty.AMBIGUOUS)
    assert not failure.has_answered
    assert not failure.is_stale_connection


def test_reset_before_an_answer_is_a_disconnect(engine):
    failure = exchange(engine, reset())
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.certainty) == ("disconnected", Certainty.AMBIGUOUS)


def test_status_line_without_the_rest_is_no_answer(engine):
    failure = exchange(engine, raw(OK + b"content-le", close=True))
    assert isinstance(failure, Failure)
    assert failure.has_answered
    assert failure.certainty is Certainty.AMBIGUOUS


@pytest.mark.parametrize("port_script", ["closed"])
def test_refused_connection_was_not_sent(engine, port_script):
    with Receiver() as receiver:
        request = post(receiver)
    failure = exchanges(engine, request)[0]
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.certainty, failure.phase) == ("connect_failed", Certainty.NOT_SENT, Phase.CONNECT)
    assert "refused" in failure.detail or "failed" in failure.detail


def test_unknown_name_was_not_sent(engine):
    failure = exchanges(engine, Request(route("http://no-such-name.invalid/"), {}, b""))[0]
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.certainty, failure.phase) == ("dns_failed", Certainty.NOT_SENT, Phase.RESOLVE)


def test_tls_to_a_plain_port_was_not_sent(engine):
    with Receiver(greet=raw(b"HTTP/1.1 400 Plain\r\n\r\n")) as receiver:
        failure = exchanges(engine, Request(route(receiver.url().replace("http:", "https:")), {}, b""))[0]
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.certainty) == ("tls_failed", Certainty.NOT_SENT)


def test_connect_timeout_was_not_sent(engine):
    async def silent(turn):
        await turn.reader.read()

    with Receiver(greet=silent) as receiver:  # accepts, and never says anything in TLS
        to = route(receiver.url().replace("http:", "https:"), connect_seconds=0.2)
        failure = exchanges(engine, Request(to, {}, b""))[0]
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.certainty) == ("connect_timeout", Certainty.NOT_SENT)


SLOW = {
    "nothing": hanging(),
    "status line": dripping(OK, b"", 0.03),
    "headers": dripping(b"x-slow: 1\r\n", OK, 0.01),
    "spaces": dripping(b" ", b"HTTP/1.1", 0.03),
    "informational": dripping(b"HTTP/1.1 100 Continue\r\n\r\n", b"", 0.01),
}


@pytest.mark.parametrize("what", SLOW)
def test_w05_total_deadline_holds_against_every_drip_before_the_body(engine, what):
    failure = exchange(engine, SLOW[what], seconds=0.5)
    assert isinstance(failure, Failure)
    assert failure.certainty is Certainty.AMBIGUOUS
    assert failure.timings.total < 3
    assert failure.reason == "timeout" or what in {"headers", "spaces"}  # those may be refused as garbage first


@pytest.mark.parametrize("code", [200, 500])
def test_w05_dripping_body_never_undoes_the_status(engine, code):
    head = f"HTTP/1.1 {code} Slow\r\ncontent-length: 100000\r\n\r\nstart".encode()
    answer = exchange(engine, dripping(b"x", head, 0.02), seconds=0.5)
    assert isinstance(answer, Answer)
    assert answer.status == code
    assert answer.body.startswith(b"start")
    assert answer.is_cut
    assert answer.timings.total < 3


def test_body_is_waited_for_no_longer_than_its_own_limit(engine, monkeypatch):
    monkeypatch.setattr(f"relays.http.{engine}_engine.BODY_SECONDS", 0.2)
    answer = exchange(engine, dripping(b"x", OK + b"content-length: 9999\r\n\r\n"), seconds=60)
    assert isinstance(answer, Answer)
    assert answer.timings.total < 10


BROKEN_BODIES = {
    "closed early": raw(OK + b"content-length: 100\r\n\r\nabc", close=True),
    "bad chunk": raw(OK + b"transfer-encoding: chunked\r\n\r\nzz\r\nabc", close=True),
    "reset": reset(OK + b"content-length: 100\r\n\r\nabc"),
    "bad gzip": raw(answer_bytes(200, b"not gzip", {"content-encoding": "gzip"})),
    "unknown coding": raw(answer_bytes(200, b"?", {"content-encoding": "br, zstd"})),
    "until close": raw(b"HTTP/1.0 200 OK\r\n\r\nabc", close=True),
    "two lengths": raw(OK + b"content-length: 1\r\ncontent-length: 2\r\n\r\nab", close=True),
}


@pytest.mark.parametrize("what", BROKEN_BODIES)
def test_w06_broken_body_never_undoes_the_status(engine, what):
    answer = exchange(engine, BROKEN_BODIES[what])
    assert isinstance(answer, Answer) or what == "reset"  # RST may overtake the status on its way
    if isinstance(answer, Answer):
        assert answer.status == 200


LARGE = {
    "endless": endless(),
    "endless error": endless(code=500),
    "10 GB announced": raw(OK + b"content-length: 10000000000\r\n\r\n" + b"x" * 100_000),
    "gzip bomb": bomb(),
    "nested gzip": bomb(times=2),
    "1 MB": status(200, b"x" * 2**20),
}


@pytest.mark.parametrize("what", LARGE)
def test_w06_no_more_than_4_kib_are_kept_and_16_read(engine, what):
    answer = exchange(engine, LARGE[what])
    assert isinstance(answer, Answer)
    assert answer.status in {200, 500}
    assert len(answer.body) <= KEEP_BYTES
    assert answer.timings.total < 4


def test_connection_with_a_body_read_to_its_limit_is_not_used_again(engine):
    with Receiver(status(200, b"x" * 2**20), status(200)) as receiver:
        first, second = exchanges(engine, post(receiver), post(receiver))
        assert isinstance(first, Answer)
        assert isinstance(second, Answer)
        assert len(first.body) == KEEP_BYTES
        assert first.is_cut
        assert not second.connection_reused


@pytest.mark.parametrize(
    "head",
    [
        b"x-long: " + b"x" * 2**20 + b"\r\n",
        b"x: 1\r\n" * 100_000,
        b"bad header line\r\n" * 10,
    ],
    ids=["1 MB header", "100,000 headers", "no colon"],
)
@pytest.mark.parametrize("code", [200, 500])
def test_w06_status_decides_when_headers_are_too_large_or_broken(engine, head, code):
    answer = exchange(engine, raw(f"HTTP/1.1 {code} X\r\n".encode() + head + b"content-length: 0\r\n\r\n"))
    assert isinstance(answer, Answer)
    assert answer.status == code


def flooding(once: bytes, again: bytes):
    """Send `once`, and `again` at full speed until the client hangs up."""

    async def play(turn):
        await turn.send(once)
        while True:
            await turn.send(again * 1000)

    return play


FLOODS = {
    "interim answers": (b"", b"HTTP/1.1 102 Processing\r\n\r\n", None),
    "large interim answers": (b"", b"HTTP/1.1 103 Early Hints\r\nlink: " + b"x" * 4000 + b"\r\n\r\n", None),
    "empty lines": (b"", b"\r\n", None),
    "chunk extension": (b"HTTP/1.1 500 X\r\ntransfer-encoding: chunked\r\n\r\n1;", b"x", 500),
    "trailers": (b"HTTP/1.1 500 X\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", b"x: y\r\n", 500),
}


@pytest.mark.parametrize("what", FLOODS)
def test_w06_flood_without_an_end_is_given_up_long_before_the_deadline(engine, what):
    """What is only skipped costs as much as what is kept: 20 s of it would take a core from all other receivers."""
    once, again, code = FLOODS[what]
    outcome = exchange(engine, flooding(once, again), seconds=120)
    if code is None:
        assert isinstance(outcome, Failure)
        assert (outcome.reason, outcome.certainty) == ("bad_response", Certainty.AMBIGUOUS)
    else:
        assert isinstance(outcome, Answer)
        assert outcome.status == code


def test_w06_twenty_exploding_answers_at_once_cost_less_than_50_mb(engine):
    """20 endless bodies, 1 MB headers and bombs at once; the receiver's own share is counted, too."""
    scripts = [*LARGE.values(), raw(OK + b"x: " + b"x" * 2**20 + b"\r\n\r\n")]
    with Receiver(*scripts, scripts[0]) as receiver:
        exchanges(engine, *[post(receiver)] * 4, at_once=True)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        exchanges(engine, *[post(receiver)] * 20, at_once=True)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 50 * 1024


def test_connection_is_kept_and_reused(engine):
    with Receiver(status(200, b"hello")) as receiver:
        answers = exchanges(engine, *[post(receiver)] * 5)
        assert [answer.connection_reused for answer in answers] == [False, True, True, True, True]
        assert receiver.connections == 1
        assert answers[1].timings.connected is None


def test_connection_close_is_obeyed(engine):
    with Receiver(status(200, connection="close")) as receiver:
        answers = exchanges(engine, *[post(receiver)] * 3)
        assert [answer.connection_reused for answer in answers] == [False, False, False]


def test_kept_connection_that_dies_unanswered_is_stale(engine):
    with Receiver(status(200), closing()) as receiver:
        first, second = exchanges(engine, post(receiver), post(receiver))
        assert isinstance(first, Answer)
        assert isinstance(second, Failure)
        assert second.is_stale_connection
        assert second.certainty is Certainty.AMBIGUOUS


def test_kept_connection_that_dies_after_an_answer_byte_is_not_stale(engine):
    for after in (raw(b"H", close=True), reset(b"HTTP/1.1 2")):
        with Receiver(status(200), delayed(0.05, after)) as receiver:
            _, second = exchanges(engine, post(receiver), post(receiver))
            assert isinstance(second, Failure)
            assert not second.is_stale_connection or not second.has_answered  # RST may overtake the byte


def test_fresh_request_never_takes_a_kept_connection(engine):
    with Receiver(status(200)) as receiver:
        answers = exchanges(engine, post(receiver), post(receiver), post(receiver, is_fresh=True), post(receiver))
        assert [answer.connection_reused for answer in answers] == [False, True, False, True]


def test_cookies_are_not_kept(engine):
    with Receiver(status(200, set_cookie="session=tenant-a; Path=/")) as receiver:
        exchanges(engine, post(receiver), post(receiver))
        assert [request.header("cookie") for request in receiver.requests] == [None, None]


def test_cancelled_requests_leave_nothing_behind(engine):
    async def run(hangs, works):
        opened = open_engine(engine)
        try:
            for _ in range(30):
                task = asyncio.create_task(opened.exchange(hangs, 60))
                await asyncio.sleep(0.002)
                task.cancel()
                await asyncio.wait([task])
                assert task.cancelled()
            return await opened.exchange(works, 5)
        finally:
            await opened.close()

    with Receiver(hanging()) as hanging_receiver, Receiver(status(200)) as working:
        answer = asyncio.run(run(post(hanging_receiver), post(working)))
        assert isinstance(answer, Answer)


def test_deadlines_one_after_the_other_leave_no_slot_taken(engine):
    with Receiver(*[hanging()] * 20, status(200)) as receiver:
        outcomes = exchanges(engine, *[post(receiver)] * 20, seconds=0.02)
        assert {type(outcome) for outcome in outcomes} == {Failure}
        receiver.wait_for(1)
        answers = exchanges(engine, *[post(receiver)] * 30, seconds=5) if len(receiver.requests) >= 20 else []
        assert all(isinstance(answer, Answer) for answer in answers)


def test_w12_nothing_of_the_url_is_logged(engine, caplog):
    caplog.set_level(logging.DEBUG)
    with Receiver(status(500), closing()) as receiver:
        to = route(receiver.url("/services/SECRET2?token=SECRET3"))
        exchanges(engine, *[Request(to, {"authorization": "Bearer SECRET4"}, b"")] * 2)
    own = [record.getMessage() for record in caplog.records if record.levelno >= logging.INFO]
    assert "SECRET" not in "\n".join(own)


def test_options_request_has_its_method(engine):
    with Receiver(status(200, allow="POST")) as receiver:
        answer = exchanges(engine, post(receiver, method="OPTIONS"))[0]
        assert isinstance(answer, Answer)
        assert receiver.requests[0].method == "OPTIONS"


def test_ipv6_loopback_is_reached(engine):
    with Receiver(status(200), host="::1") as receiver:
        answer = exchanges(engine, post(receiver))[0]
        assert isinstance(answer, Answer)
        assert answer.peer == "::1"
        assert receiver.requests[0].header("host") == f"[::1]:{receiver.port}"


def test_answer_that_came_unasked_is_never_taken_for_the_next_ones(engine):
    """Or a receiver's stray 200 would count as the delivery of another event."""
    with Receiver(raw(answer_bytes(500) + answer_bytes(200, b"stray")), status(503)) as receiver:
        first, second, third = exchanges(engine, *[post(receiver)] * 3)
        assert isinstance(first, Answer)
        assert first.status == 500
        assert second.is_stale_connection if isinstance(second, Failure) else second.status == 503
        assert isinstance(third, Answer)
        assert third.status == 503


def has_stray_bytes(opened) -> bool:
    """Look into the engine's one idle connection."""
    if isinstance(opened, AiohttpEngine):
        (connection,) = opened._idle._kept
        return connection.protocol.should_close
    (pool,) = opened._pools.values()
    (connection,) = pool.connections.connections
    # asked of the stream: httpcore2 before 2.17 asks it in has_expired(), since then as it sends the next request
    return connection._connection._network_stream.get_extra_info("is_readable")


def test_answer_that_came_unasked_while_idle_closes_the_connection(engine):
    late = threading.Event()

    async def answer_twice(turn):
        await turn.send(answer_bytes(200))
        await asyncio.get_running_loop().run_in_executor(None, late.wait)
        await turn.send(answer_bytes(200, b"stray"))

    async def run(receiver):
        opened = open_engine(engine)
        try:
            first = await opened.exchange(post(receiver), 5)
            late.set()
            async with asyncio.timeout(10):
                while not has_stray_bytes(opened):  # noqa: ASYNC110 - nobody tells when bytes arrive
                    await asyncio.sleep(0.005)
            return first, await opened.exchange(post(receiver), 5)
        finally:
            await opened.close()

    with Receiver(answer_twice, status(503)) as receiver:
        first, second = asyncio.run(run(receiver))
        assert isinstance(first, Answer)
        assert isinstance(second, Answer)
        assert (first.status, second.status) == (200, 503)
