"""What each answer means for the delivery and for its destination, through the sink, on real receivers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from outbox.model import Certainty
from outbox.reasons import state_and_why
from relays.results import Delivered, Hold, Refused
from relays.sinks.webhook import WebhookSink
from tests.receivers import Receiver, bomb, closing, dripping, endless, hanging, raw, reset, status
from tests.webhook_deliveries import SECRET, delivery, destination, send, send_all

EVERY_STATUS = [
    *(200, 201, 202, 204, 205, 206, 226, 299),
    *(300, 301, 302, 303, 304, 305, 306, 307, 308),
    *(400, 401, 403, 404, 405, 408, 409, 410, 411, 413, 414, 415, 418, 422, 425, 429, 431, 451, 499),
    *(500, 501, 502, 503, 504, 505, 507, 511, 529, 600, 999),
]


def outcome_of(script, **settings):
    with Receiver(script) as receiver:
        return send(receiver.url(), **settings)


@pytest.mark.parametrize("engine", ["aiohttp", "httpx"])
@pytest.mark.parametrize("code", EVERY_STATUS)
def test_w09_every_status_has_one_documented_meaning(code, engine):
    result = outcome_of(status(code), engine=engine)
    assert result.status == code
    if code < 300:
        assert isinstance(result, Delivered)
        return
    assert isinstance(result, Refused)
    assert result.certainty is Certainty.ANSWERED
    assert result.charged
    assert result.permanent is (code in {410, 413, 414, 415, 431})
    assert result.reason == ("redirect_not_followed" if 300 <= code < 400 else f"http_{code}")
    assert (result.hold is not None) is (code == 410)
    assert result.is_overload is (code in {429, 502, 503, 504, 529})


def test_w09_gone_disables_the_destination_and_kills_the_delivery():
    with Receiver(status(410, b"moved away")) as receiver:
        result = send(receiver.url())
        host = f"127.0.0.1:{receiver.port}"
    assert result.permanent
    assert result.hold == Hold("disabled", f"{host} answered 410 (gone); resume it when the receiver is back")
    assert result.detail == f"{host} answered 410: moved away"


@pytest.mark.parametrize("code", [429, 503])
@pytest.mark.parametrize(("value", "seconds"), [("7", 7), ("100000", 86400), ("Wed, 21 Oct 2015 07:28:00 GMT", 0)])
def test_throttled_delays_the_delivery_and_the_destination(code, value, seconds):
    result = outcome_of(status(code, retry_after=value))
    assert result.retry_after == seconds
    if seconds:
        assert result.hold.state == "held"
        assert result.hold.seconds == seconds
        assert f"answered {code} with retry-after {seconds} s" in result.hold.reason
    else:
        assert result.hold is None


@pytest.mark.parametrize("code", [400, 404, 408, 500, 502, 307, 413])
def test_retry_after_on_other_failures_delays_the_delivery_alone(code):
    result = outcome_of(status(code, retry_after="60"))
    assert (result.retry_after, result.hold) == (60, None)


def test_status_tells_a_wait_the_destination_asked_for_from_a_backoff():
    now = datetime.now(UTC)
    row = SimpleNamespace(place="open", is_leased=False, removed_at=None, destination_state="active", held_until=None)
    row.blocked_by_event = row.blocked_by_dead_event = None
    row.is_later, row.due_at, row.destination = True, now + timedelta(seconds=60), "shop"
    for answer, words in (
        (status(500, retry_after="60"), "the destination asked to wait (retry-after 60 s): not before "),
        (status(500, b"a.b answered 500 with retry-after 60 s"), "backoff until "),
    ):
        result = outcome_of(answer)
        attempt = SimpleNamespace(outcome="retry", attempt=1, reason=result.reason, detail=result.detail)
        why = state_and_why(row, attempt)[1]
        assert why.startswith(words)
        assert why.endswith("after attempt 1: http_500")


def test_unreadable_retry_after_is_ignored():
    result = outcome_of(status(503, retry_after="soon"))
    assert (result.retry_after, result.hold) == (None, None)


@pytest.mark.parametrize(
    ("dead_on", "dead", "alive"),
    [([404], 404, 413), (["4xx"], 451, 500), ([], 500, 413), ("400, 5xx", 503, 404), (422, 422, 400)],
)
def test_dead_on_replaces_what_is_dead_at_once(dead_on, dead, alive):
    assert outcome_of(status(dead), dead_on=dead_on).permanent or dead_on == []
    assert not outcome_of(status(alive), dead_on=dead_on).permanent


LOCATIONS = {
    "https://shop.example/new?token=SECRET3": "https://shop.example/…",
    "https://u:SECRET1@shop.example/x": "https://shop.example/…",
    "/login": "another path of the same host",
    "file:///etc/passwd": "file:///…",
    "": "nowhere",
    "http://other.example": "http://other.example/…",
    "//evil.example/x": "another path",
}


@pytest.mark.parametrize("location", LOCATIONS)
@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_w03_redirect_is_a_failure_with_a_hint_and_no_second_request(code, location):
    with Receiver(status(code, location=location), status(200)) as receiver:
        result = send(receiver.url())
        assert len(receiver.requests) == 1
    assert result.reason == "redirect_not_followed"
    assert LOCATIONS[location] in result.detail
    assert "set the final URL" in result.detail
    assert "SECRET" not in repr(result)


def test_w03_redirect_without_location_or_with_an_odd_one_is_no_crash():
    for script in (
        status(302),
        status(300),
        raw(b"HTTP/1.1 302 X\r\nlocation: http://\xff\xfe/\r\ncontent-length: 0\r\n\r\n"),
    ):
        assert outcome_of(script).reason == "redirect_not_followed"


FAULTS = {
    "garbage": (raw(b"HTTP/1.1 abc\r\n\r\n", close=True), "bad_response"),
    "http 0.9": (raw(b"hello", close=True), None),
    "empty reply": (closing(), "disconnected"),
    "reset": (reset(), "disconnected"),
    "hanging": (hanging(), "timeout"),
    "dripping headers": (dripping(b"x-a: 1\r\n", b"HTTP/1.1 200 OK\r\n", 0.05), "timeout"),
}


@pytest.mark.parametrize("engine", ["aiohttp", "httpx"])
@pytest.mark.parametrize("fault", FAULTS)
def test_w05_without_a_status_it_is_ambiguous_and_tried_again(fault, engine):
    script, reason = FAULTS[fault]
    with Receiver(script) as receiver:
        result = send(receiver.url(), seconds=0.5, engine=engine)
    assert isinstance(result, Refused)
    assert result.reason == reason or reason is None
    assert result.certainty is Certainty.AMBIGUOUS
    assert not result.permanent
    assert result.detail.startswith("127.0.0.1:")


@pytest.mark.parametrize("engine", ["aiohttp", "httpx"])
@pytest.mark.parametrize(
    "script", [endless(), bomb(), dripping(b"x", b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n")]
)
def test_w06_whatever_the_body_does_a_2xx_is_delivered(script, engine):
    with Receiver(script) as receiver:
        result = send(receiver.url(), seconds=1, engine=engine)
    assert isinstance(result, Delivered)
    assert len((result.detail or "").encode()) <= 4096


DETAILS = {
    b"": None,
    b"  \n ": None,
    b'{"ok":true}': '{"ok":true}',
    "Zoë \N{SNOWMAN}".encode(): "Zoë \N{SNOWMAN}",
    b"a\0b": "a\N{REPLACEMENT CHARACTER}b",
    b"\x1b[31mred": "\N{REPLACEMENT CHARACTER}[31mred",
    b"\xff\xfe\xfd": "[3 bytes that are not UTF-8 text]",
    b"\xed\xa0\x80": "[3 bytes that are not UTF-8 text]",
    b"one\r\ntwo": "one\ntwo",
}


@pytest.mark.parametrize("body", DETAILS)
def test_what_the_receiver_says_is_kept_in_a_form_postgresql_can_store(body):
    assert outcome_of(status(200, body)).detail == DETAILS[body]


@pytest.mark.parametrize("character", ["x", "é", "\N{SNOWMAN}", "\N{PILE OF POO}", '"'])
def test_long_answers_are_cut_between_characters(character):
    detail = outcome_of(status(500, (character * 20_000).encode())).detail
    assert len(detail.encode()) <= 4096
    assert detail.endswith(" … [cut]")
    assert "\N{REPLACEMENT CHARACTER}" not in detail


def test_stale_connection_is_repeated_once_at_once_and_both_requests_are_told_of():
    with Receiver(status(200), closing(), status(201)) as receiver:
        to = destination(receiver.url())
        repeated = delivery(to, attempt=2)
        assert send_all(delivery(to), repeated) == [Delivered(status=200), Delivered(status=201)]
        (repeat,) = repeated.repeats
        assert (repeat.reason, repeat.certainty, repeat.permanent) == ("stale_connection", Certainty.AMBIGUOUS, False)
        requests = receiver.requests
        assert [request.connection for request in requests] == [1, 1, 2]
        assert requests[1].body == requests[2].body
        assert requests[1].header("webhook-id") == requests[2].header("webhook-id")


def test_stale_connection_is_repeated_no_more_than_once():
    with Receiver(status(200), closing()) as receiver:
        to = destination(receiver.url())
        repeated = delivery(to, attempt=2)
        _, result = send_all(delivery(to), repeated)
        assert isinstance(result, Refused)
        assert result.reason == "disconnected"
        assert len(repeated.repeats) == 1
        assert len(receiver.requests) == 3


def test_new_connection_that_dies_is_not_repeated():
    with Receiver(closing()) as receiver:
        result = send(receiver.url())
        assert result.reason == "disconnected"
        assert len(receiver.requests) == 1


def test_server_that_closed_an_idle_connection_costs_no_repeat():
    """The usual case: the relay sees the close before the next event, and connects anew."""

    async def run(receiver, to):
        sink = WebhookSink()
        try:
            first = await sink.send(delivery(to))
            receiver.drop_connections()
            (kept,) = sink._engines["aiohttp"]._idle._kept
            async with asyncio.timeout(10):
                await kept.protocol.closed
            return first, await sink.send(delivery(to, attempt=2))
        finally:
            await sink.close()

    with Receiver(status(200)) as receiver:
        first, second = asyncio.run(run(receiver, destination(receiver.url())))
        assert first == second == Delivered(status=200)


def test_repeat_stays_within_the_deadline():
    with Receiver(status(200), closing(), hanging()) as receiver:
        to = destination(receiver.url())
        repeated = delivery(to, attempt=2, seconds=0.5)
        _, result = send_all(delivery(to), repeated)
        assert result.reason == "timeout"
        assert len(repeated.repeats) == 1


def test_setting_that_is_missing_on_this_relay_holds_and_charges_nothing(monkeypatch):
    monkeypatch.delenv("SHOP_SECRET", raising=False)
    with Receiver(status(200)) as receiver:
        to = destination(receiver.url(), secret="env:SHOP_SECRET")
        result = send_all(delivery(to))[0]
        assert receiver.requests == []
        assert isinstance(result, Refused)
        assert (result.reason, result.charged, result.permanent) == ("setting_missing", False, False)
        assert result.hold == Hold("held", result.detail, 60)
        assert "SHOP_SECRET" in result.detail
        monkeypatch.setenv("SHOP_SECRET", SECRET)
        assert isinstance(send_all(delivery(to))[0], Delivered)


def test_secret_by_reference_that_is_no_webhook_secret_holds_and_is_not_shown(monkeypatch):
    monkeypatch.setenv("SHOP_SECRET", "not-a-webhook-secret")
    result = send("https://shop.example/", secret="env:SHOP_SECRET")
    assert (result.reason, result.charged) == ("setting_missing", False)
    assert "not-a-webhook-secret" not in repr(result)


def test_settings_nobody_could_send_with_are_dead_at_once():
    for settings in (
        {"url": "https://shop.example/#x"},
        {"headers": {"host": "x"}},
        {"body": "xml"},
        {"colour": "red"},
    ):
        to = destination("https://shop.example/")
        result = send_all(delivery(replace(to, settings={**to.settings, **settings})))[0]
        assert (result.reason, result.permanent, result.certainty) == ("invalid_settings", True, Certainty.NOT_SENT)


def test_changed_settings_are_used_from_the_next_event_on():
    with Receiver(status(200)) as old, Receiver(status(200)) as new:
        before = destination(old.url())
        after = replace(before, settings={**before.settings, "url": new.url()}, version=before.version + 1000)
        send_all(delivery(before), delivery(after), delivery(after))
        assert (len(old.requests), len(new.requests)) == (1, 2)


def test_repeat_that_is_cut_off_leaves_a_note_of_the_first_request():
    """As at the relay's own deadline, or when it stops: the result of the attempt is not the sink's."""

    async def run(receiver, repeated):
        sink = WebhookSink()
        try:
            await sink.send(delivery(repeated.destination))
            sending = asyncio.create_task(sink.send(repeated))
            await asyncio.to_thread(receiver.wait_for, 3)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
        finally:
            await sink.close()

    with Receiver(status(200), closing(), hanging()) as receiver:
        repeated = delivery(destination(receiver.url()), attempt=2)
        asyncio.run(run(receiver, repeated))
        assert [repeat.reason for repeat in repeated.repeats] == ["stale_connection"]
