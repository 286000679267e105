"""What arrives at a receiver: bytes, headers, signatures (W01, W08)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks.webhooks import Webhook

from outbox.errors import InvalidSettings
from outbox.model import Certainty
from outbox.webhooks import verify
from relays.results import Delivered
from relays.sinks.webhook import WebhookSink
from tests.receivers import Receiver, status
from tests.webhook_deliveries import EVENT_ID, SECRET, delivery, destination, send_all

PAYLOADS = [
    b'{"b": 1, "a": 2}',
    b'{"n": [9007199254740993, 8202522731445525542, 1.10, -0.0, 0.1, 1.234567890123456789012345678901234567890]}',
    b'{"x":  {"y":\n{"z" : null}}}',
    '{"name": "Zoë \N{EN DASH} 東京 \N{PILE OF POO}", "path": "a/b"}'.encode(),
    b"{}",
    b'"text"',
    b"[]",
    b"null",
    b'{"big": ' + b"1" * 400 + b"}",
]
NEW_SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
SIGNING_KEY = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
PUBLIC_KEY = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="


def received(*deliveries):
    """Send the deliveries to one receiver and return what came."""
    with Receiver(status(200)) as receiver:
        for one in deliveries:
            one.destination.settings["url"] = receiver.url()
        assert all(isinstance(result, Delivered) for result in send_all(*deliveries))
        return receiver.requests


def headers_of(request) -> dict[str, str]:
    return {name.lower(): value for name, value in request.headers}


@pytest.mark.parametrize("engine", ["aiohttp", "httpx"])
@pytest.mark.parametrize("payload", PAYLOADS)
def test_w01_signed_bytes_are_sent_bytes_on_every_attempt(payload, engine):
    to = destination("https://x.example/", engine=engine)
    attempts = received(*(delivery(to, body=payload, attempt=number) for number in (1, 2, 3)))
    for number, request in enumerate(attempts, 1):
        assert verify(headers_of(request), request.body, SECRET) == EVENT_ID
        Webhook(SECRET).verify(request.body, headers_of(request))
        assert request.header("content-length") == str(len(request.body))
        assert request.header("content-type") == "application/json"
        assert request.header("webhook-attempt") == str(number)
        assert request.header("idempotency-key") == f'"{EVENT_ID}"'
        assert payload in request.body
    assert len({request.body for request in attempts}) == 1


def test_w01_a_relay_started_later_sends_the_same_bytes():
    to = destination("https://x.example/")
    first = received(delivery(to))[0]
    again = received(delivery(to, attempt=7, interruptions=2, recorded_at=datetime(2026, 12, 1, tzinfo=UTC)))[0]
    assert first.body == again.body


def test_request_says_who_sends_it_and_asks_for_no_compression():
    request = received(delivery(destination("https://x.example/")))[0]
    assert request.header("user-agent").startswith("outbox-relay/")
    assert request.header("accept-encoding") == "identity"
    assert request.header("accept") == "*/*"
    assert request.header("transfer-encoding") is None
    assert request.method == "POST"


def test_every_secret_of_a_list_signs():
    request = received(delivery(destination("https://x.example/", secret=[NEW_SECRET, SECRET, SIGNING_KEY])))[0]
    assert [item.split(",")[0] for item in request.header("webhook-signature").split(" ")] == ["v1", "v1", "v1a"]
    for secret in (NEW_SECRET, SECRET, PUBLIC_KEY):
        assert verify(headers_of(request), request.body, secret) == EVENT_ID


def test_secrets_are_read_from_environment_and_file(monkeypatch, tmp_path):
    monkeypatch.setenv("SHOP_SECRET", SECRET)
    file = tmp_path / "secret"
    file.write_text(NEW_SECRET + "\n")
    request = received(delivery(destination("https://x.example/", secret=["env:SHOP_SECRET", f"file:{file}"])))[0]
    for secret in (NEW_SECRET, SECRET):
        assert verify(headers_of(request), request.body, secret) == EVENT_ID


def test_without_a_secret_the_request_is_sent_unsigned():
    to = destination("https://x.example/")
    del to.settings["secret"]
    request = received(delivery(to))[0]
    assert request.header("webhook-signature") is None
    assert request.header("webhook-id") == EVENT_ID


def test_rotated_secret_signs_beside_the_new_one_until_its_grace_ends():
    now = datetime.now(UTC)
    before = destination("https://x.example/").settings
    during = WebhookSink.rotate_secret(before, NEW_SECRET, 3600, now)
    over = WebhookSink.rotate_secret(before, NEW_SECRET, 3600, now - timedelta(hours=2))
    both, one = (received(delivery(destination(**settings)))[0] for settings in (during, over))
    assert verify(headers_of(both), both.body, SECRET) == verify(headers_of(both), both.body, NEW_SECRET)
    assert len(both.header("webhook-signature").split(" ")) == 2
    assert len(one.header("webhook-signature").split(" ")) == 1
    assert verify(headers_of(one), one.body, NEW_SECRET) == EVENT_ID


def test_own_headers_are_sent_and_those_of_the_event_beside_them(monkeypatch):
    monkeypatch.setenv("TOKEN", "Bearer 123")
    to = destination("https://x.example/", headers={"Authorization": "env:TOKEN", "x-colon": "a: b"})
    request = received(delivery(to, headers={"traceparent": "00-1-2-01", "X-Tenant": "7", "authorization": "stolen"}))[
        0
    ]
    assert request.header("authorization") == "Bearer 123"
    assert request.header("x-colon") == "a: b"
    assert request.header("traceparent") == "00-1-2-01"
    assert request.header("x-tenant") == "7"


def test_headers_of_the_event_can_be_limited():
    to = destination("https://x.example/", forward_headers=["traceparent"])
    request = received(delivery(to, headers={"traceparent": "00-1-2-01", "x-tenant": "7"}))[0]
    assert request.header("traceparent") == "00-1-2-01"
    assert request.header("x-tenant") is None


RESERVED = [
    *("webhook-id", "Webhook-Signature", "webhook-x", "Host", "Content-Length", "transfer-encoding", "connection"),
    *("te", "trailer", "upgrade", "keep-alive", "proxy-authorization", "expect", "content-type", "content-encoding"),
    *("accept-encoding", "user-agent", "idempotency-key", "ce-id"),
]
ODD_NAMES = ["", " ", "x y", "x\r\ny", "x:y", "é", "x\0", "x" * 200]
ODD_VALUES = {
    "non-ascii": "é", "ellipsis": "…", "line break": "a\r\nX-Evil: 1", "newline": "a\n", "nul": "a\0b",
    "leading space": " abc", "trailing space": "abc ", "tab": "a\tb", "16 KB": "x" * 16384, "escape": "\x1b",
}  # fmt: skip


@pytest.mark.parametrize("name", RESERVED + ODD_NAMES)
def test_w08_reserved_or_odd_header_is_refused_when_saved_and_when_sent(name):
    settings = destination("https://10.0.0.1/", headers={name: "SECRET-VALUE"}).settings
    with pytest.raises(InvalidSettings, match=r"^headers: ") as refused:
        WebhookSink.check(settings)
    assert "SECRET-VALUE" not in str(refused.value)
    sent_anyway(headers={name: "SECRET-VALUE"})


@pytest.mark.parametrize("what", ODD_VALUES)
def test_w08_odd_value_is_refused_by_the_name_of_its_header(what):
    with pytest.raises(InvalidSettings, match="'x-mine'") as refused:
        WebhookSink.check({"url": "https://10.0.0.1/", "headers": {"x-mine": ODD_VALUES[what]}})
    assert ODD_VALUES[what] not in str(refused.value)
    sent_anyway(headers={"x-mine": ODD_VALUES[what]})


@pytest.mark.parametrize("value", ["Bearer SECRET4\n", "Bearer SECRET4\r\nx-evil: 1", "Bearer SECRET4é", " SECRET4"])
def test_w08_value_from_the_environment_that_cannot_be_sent_is_permanent(value, monkeypatch):
    monkeypatch.setenv("TOKEN", value)
    result = sent_anyway(headers={"authorization": "env:TOKEN"})
    assert "authorization" in result.detail
    assert "SECRET4" not in repr(result)


@pytest.mark.parametrize("name", [*RESERVED, "x y", "x\r\ny"])
def test_w08_header_of_an_event_written_by_hand_is_permanent_and_sends_nothing(name):
    sent_anyway(event_headers={name: "1"})


@pytest.mark.parametrize("what", ODD_VALUES)
def test_w08_header_value_of_an_event_written_by_hand_is_permanent(what):
    sent_anyway(event_headers={"x-mine": ODD_VALUES[what]})


def sent_anyway(event_headers=None, **settings):
    """Send with settings that were never checked: nothing arrives, and it is dead at once."""
    with Receiver(status(200)) as receiver:
        to = destination(receiver.url(), **settings)
        (result,) = send_all(delivery(to, headers=event_headers))
        assert receiver.requests == []
    assert (result.reason, result.permanent, result.certainty) == ("invalid_settings", True, Certainty.NOT_SENT)
    return result


def test_header_given_twice_and_too_many_are_refused():
    for headers in ({"x-a": "1", "X-A": "2"}, {f"x-{n}": "1" for n in range(21)}):
        with pytest.raises(InvalidSettings, match=r"^headers: "):
            WebhookSink.check({"url": "https://10.0.0.1/", "headers": headers})


def test_cloudevents_binary_puts_the_attributes_into_headers():
    to = destination("https://x.example/", body="cloudevents-binary", source="https://shop.example")
    request = received(delivery(to, key="käse 1%"))[0]
    assert request.header("ce-id") == EVENT_ID
    assert request.header("ce-source") == "https://shop.example"
    assert request.header("ce-type") == "order.paid"
    assert request.header("ce-partitionkey") == "k%C3%A4se%201%25"
    assert json.loads(request.body) == {"total": "1.10"}


def test_c14_timestamp_is_of_this_attempt_and_close_to_now():
    request = received(delivery(destination("https://x.example/")))[0]
    assert abs(int(request.header("webhook-timestamp")) - datetime.now(UTC).timestamp()) < 30
