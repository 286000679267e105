"""W12: SECRET1 to SECRET5 in nothing the webhook sink returns, raises, logs or shows."""

from __future__ import annotations

import asyncio
import logging
import traceback
from dataclasses import replace

import pytest

from outbox.errors import InvalidSettings
from relays.http.resolver import Resolver
from relays.results import Delivered, Refused
from relays.sinks.webhook import WebhookSink
from tests.certificates import Authority
from tests.receivers import Receiver, closing, hanging, raw, reset, status
from tests.webhook_deliveries import delivery, destination

SIGNING = "whsec_SECRET5SECRET5SECRET5SECRET5abcd"
PATH = "/services/SECRET2?token=SECRET3"
HEADERS = {"authorization": "Bearer SECRET4"}
EVERYTHING = f"{PATH} /services/SECRET2 SECRET2 token=SECRET3 SECRET3 Bearer SECRET4 SECRET4 {SIGNING} {SIGNING[6:]}"


async def echo(turn):
    """Answer 500 with everything the request held, as debug pages do."""
    body = turn.request.head + turn.request.body + EVERYTHING.encode()
    await status(500, body)(turn)


FAULTS = {
    "echo": echo,
    "200 with an echo": raw(
        b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(EVERYTHING), EVERYTHING.encode())
    ),
    "redirect": status(302, location=f"https://u:SECRET1@h{PATH}"),
    "garbage": raw(f"{EVERYTHING}\r\n\r\n".encode(), close=True),
    "bad header": raw(f"HTTP/1.1 500 X\r\n{EVERYTHING}\r\n\r\n".encode(), close=True),
    "retry-after": status(503, retry_after=EVERYTHING),
    "gone": status(410, EVERYTHING.encode()),
    "timeout": hanging(),
    "disconnect": closing(),
    "reset": reset(),
}


@pytest.fixture(params=["aiohttp", "httpx"])
def engine(request):
    return request.param


@pytest.fixture
def logged(caplog):
    """Return what was logged, at every level that a relay shows."""
    caplog.set_level(logging.INFO)
    return lambda: "\n".join(
        record.getMessage() + (record.exc_text or "") + repr(record.args) for record in caplog.records
    )


def try_once(url: str, engine: str, resolver: Resolver | None = None, **settings):
    async def run():
        sink = WebhookSink(resolver)
        try:
            to = destination(url, secret=SIGNING, headers=HEADERS, engine=engine, **settings)
            to = replace(to, policy={"timeout": "0.5s"})
            return await sink.send(delivery(to, seconds=0.5)), await sink.probe(to)
        finally:
            await sink.close()

    return asyncio.run(run())


def check_clean(result, report, logs: str, host: str) -> None:
    for text in (repr(result), repr(report), report.curl or "", logs):
        assert "SECRET" not in text.replace("env:SHOP_SECRET", "")
    if isinstance(result, Refused):
        assert host in (result.detail or "")


@pytest.mark.parametrize("fault", FAULTS)
def test_w12_no_secret_in_any_outcome(fault, engine, logged):
    with Receiver(FAULTS[fault]) as receiver:
        result, report = try_once(receiver.url(PATH), engine)
        check_clean(result, report, logged(), f"127.0.0.1:{receiver.port}")
        assert receiver.requests[0].target == PATH
        assert receiver.requests[0].header("authorization") == "Bearer SECRET4"


def test_w12_no_secret_when_the_name_does_not_resolve(engine, logged):
    check_clean(*try_once(f"https://no-such-name.invalid{PATH}", engine), logged(), "no-such-name.invalid")


def test_w12_no_secret_when_the_address_is_refused(engine, logged):
    result, report = try_once(f"https://hooks.test{PATH}", engine, Resolver(lambda _host: ("10.0.0.1",)))
    check_clean(result, report, logged(), "hooks.test")
    assert result.reason == "address_refused"


def test_w12_no_secret_when_tls_fails(engine, logged, tmp_path):
    with Receiver(tls=Authority(tmp_path).server_context("other.test")) as receiver:
        result, report = try_once(receiver.url(PATH), engine)
        check_clean(result, report, logged(), f"127.0.0.1:{receiver.port}")
        assert result.reason == "tls_failed"


def test_w12_no_secret_when_nothing_listens(engine, logged):
    with Receiver() as receiver:
        url, host = receiver.url(PATH), f"127.0.0.1:{receiver.port}"
    result, report = try_once(url, engine)
    check_clean(result, report, logged(), host)
    assert result.reason == "connect_failed"


def test_w12_no_secret_when_the_engine_breaks(engine, logged, monkeypatch):
    """A bug in a library: its exception holds everything, the outcome its type alone."""

    def broken(*_arguments, **_keywords):
        raise LookupError(EVERYTHING)

    monkeypatch.setattr("aiohttp.TCPConnector.connect", broken)
    monkeypatch.setattr("httpcore2.AsyncConnectionPool.handle_async_request", broken)
    result, _ = try_once(f"http://127.0.0.1:8080{PATH}", engine)
    assert isinstance(result, Refused)
    assert (result.reason, result.detail) == ("engine_error", "127.0.0.1:8080: LookupError")
    assert "SECRET" not in repr(result) + logged()


BAD_SETTINGS = [
    {"url": f"https://u:SECRET1@h{PATH}"},
    {"url": f"https://h{PATH}#x"},
    {"url": f"https://h{PATH}\n"},
    {"url": f"ftp://h{PATH}"},
    {"url": f"http://h{PATH}"},
    {"url": f"https://h:22{PATH}"},
    {"url": f"https://h{PATH}", "secret": "SECRET5"},
    {"url": f"https://h{PATH}", "secret": ["whsec_SECRET5"]},
    {"url": f"https://h{PATH}", "previous_secrets": ["SECRET5"]},
    {"url": f"https://h{PATH}", "previous_secrets": [{"secret": "SECRET5", "until": "2026-12-01T00:00:00Z"}]},
    {"url": f"https://h{PATH}", "headers": {"authorization": "Bearer SECRET4\r\n"}},
    {"url": f"https://h{PATH}", "headers": {"host": "SECRET4"}},
    {"url": f"https://h{PATH}", "headers": "SECRET4"},
    {"url": f"https://127.0.0.1{PATH}", "allow_networks": []},
    {"url": f"https://h{PATH}", "proxy": f"http://u:SECRET1@p{PATH}", "engine": "httpx"},
]


@pytest.mark.parametrize("settings", BAD_SETTINGS)
def test_w12_no_secret_in_a_refused_setting_nor_in_its_traceback(settings, monkeypatch):
    monkeypatch.setattr("relays.sinks.webhook.saving.lookup", lambda _host: ("127.0.0.1",))
    with pytest.raises(InvalidSettings) as refused:
        WebhookSink.check(settings)
    shown = "".join(traceback.format_exception(refused.value))
    assert "SECRET" not in shown.replace("SECRETS", "")


@pytest.mark.parametrize("settings", BAD_SETTINGS)
def test_w12_no_secret_when_such_settings_are_sent_with(settings, logged):
    async def run():
        sink = WebhookSink(Resolver(lambda _host: ("127.0.0.1",)))
        try:
            to = destination("https://h/")
            to.settings.clear()
            to.settings.update(settings)
            return await sink.send(delivery(to)), await sink.probe(to)
        finally:
            await sink.close()

    result, report = asyncio.run(run())
    assert not isinstance(result, Delivered)
    assert "SECRET" not in repr(result) + repr(report) + logged()


def test_w12_values_by_reference_are_redacted_like_inline_ones(monkeypatch, engine, logged):
    monkeypatch.setenv("SHOP_SECRET", SIGNING)
    monkeypatch.setenv("TOKEN", "Bearer SECRET4")

    async def run(url):
        sink = WebhookSink()
        try:
            to = destination(url, secret="env:SHOP_SECRET", headers={"authorization": "env:TOKEN"}, engine=engine)
            return await sink.send(delivery(to)), await sink.probe(to)
        finally:
            await sink.close()

    with Receiver(echo) as receiver:
        result, report = asyncio.run(run(receiver.url(PATH)))
        check_clean(result, report, logged(), f"127.0.0.1:{receiver.port}")
    assert report.curl_variables["AUTHORIZATION"] == "env:TOKEN"


def test_w12_nothing_a_sink_holds_shows_a_secret():
    from relays.sinks.webhook.endpoint import resolve_endpoint
    from relays.sinks.webhook.request import request_of
    from relays.sinks.webhook.settings import parse_settings
    from tests.webhook_deliveries import RECORDED_AT

    to = destination(f"https://shop.example{PATH}", secret=SIGNING, headers=HEADERS)
    settings = parse_settings(to.settings)
    endpoint = resolve_endpoint(settings)
    request = request_of(endpoint, delivery(to), RECORDED_AT.timestamp())
    for one in (settings, endpoint, request):
        assert "SECRET" not in repr(one)
