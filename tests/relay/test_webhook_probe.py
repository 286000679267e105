from __future__ import annotations

import asyncio
import subprocess

import pytest

from outbox.webhooks import verify
from relays.http.resolver import Resolver
from relays.sinks.webhook import WebhookSink
from tests.certificates import Authority
from tests.http_proxy import HttpProxy
from tests.receivers import Receiver, hanging, status
from tests.webhook_deliveries import SECRET, destination


def probe(to, resolver=None, **arguments):
    return asyncio.run(WebhookSink(resolver).probe(to, **arguments))


def steps(report) -> dict[str, bool]:
    return {step.name: step.is_ok for step in report.steps}


@pytest.mark.parametrize("engine", ["aiohttp", "httpx"])
def test_probe_goes_from_the_name_to_a_signed_event(engine, tmp_path):
    authority = Authority(tmp_path)
    with Receiver(status(200, b"thanks"), tls=authority.server_context("hooks.test")) as receiver:
        to = destination(receiver.url(host="hooks.test"), engine=engine, ca_file=authority.file)
        report = probe(to, Resolver(lambda _host: ("127.0.0.1",)))
        (request,) = receiver.requests
    assert report.is_ok
    assert list(steps(report)) == ["settings", "resolve", "guard", "connect", "tls", "event"]
    assert report.host == f"hooks.test:{receiver.port}"
    assert "TLSv1.3" in report.steps[4].detail
    assert "answered 200: thanks (connected" in report.steps[5].detail
    assert all(step.seconds >= 0 for step in report.steps)
    assert verify(dict(request.headers), request.body, SECRET)
    assert b'"type":"outbox.test"' in request.body


@pytest.mark.parametrize(
    ("changes", "names", "failed"),
    [
        ({"secret": "env:NOT_SET_HERE"}, None, "settings"),
        ({"headers": {"host": "x"}}, None, "settings"),
        ({}, (), "resolve"),
        ({}, ("127.0.0.1", "10.0.0.1"), "guard"),
    ],
)
def test_probe_stops_at_the_step_that_fails(changes, names, failed):
    def resolve(host):
        if not names:
            raise OSError(f"{host} is not known")
        return names

    with Receiver(status(200)) as receiver:
        report = probe(destination(receiver.url(host="hooks.test"), **changes), Resolver(resolve))
        assert receiver.connections == 0
    assert not report.is_ok
    assert report.steps[-1].name == failed
    assert not report.steps[-1].is_ok
    assert all(step.is_ok for step in report.steps[:-1])


def test_probe_tells_a_refused_connection_a_bad_certificate_and_a_bad_answer_apart(tmp_path):
    with Receiver() as receiver:
        closed = receiver.url()
    refused = probe(destination(closed)).steps[-1]
    assert (refused.name, refused.detail) == ("connect", "connection refused")
    with Receiver(tls=Authority(tmp_path).server_context("127.0.0.1")) as receiver:
        report = probe(destination(receiver.url()))
        assert report.steps[-1].name == "tls"
        assert "certificate refused" in report.steps[-1].detail
    with Receiver(status(401, b"who are you")) as receiver:
        report = probe(destination(receiver.url()))
        assert report.steps[-1].name == "event"
        assert "http_401: 127.0.0.1" in report.steps[-1].detail
        assert report.curl is not None


def test_probe_dials_the_addresses_in_turn_as_an_engine_does():
    with Receiver(status(200), host="127.0.0.2") as receiver:
        to = destination(receiver.url(host="hooks.test"))
        report = probe(to, Resolver(lambda _host: ("127.0.0.1", "127.0.0.2")))
    assert report.is_ok
    assert report.steps[3].detail == f"127.0.0.2 port {receiver.port}; 127.0.0.1: connection refused"
    assert f"--resolve hooks.test:{receiver.port}:127.0.0.2" in report.curl


def test_probe_says_what_is_signed_and_which_proxy_is_between():
    with Receiver(status(200)) as receiver, HttpProxy() as proxy:
        unsigned = destination(receiver.url())
        del unsigned.settings["secret"]
        assert "not signed: set secret" in probe(unsigned).steps[0].detail
        assert "signed with 1 secret" in probe(destination(receiver.url())).steps[0].detail
        report = probe(destination(receiver.url(host="hooks.test"), engine="httpx", proxy=proxy.url()))
        assert report.is_ok
        assert list(steps(report)) == ["settings", "event"]
        assert f"through the proxy {proxy.url()}" in report.steps[0].detail
        assert proxy.asked == [f"POST {receiver.url(host='hooks.test')}"]


def test_probe_ends_within_the_policys_timeout():
    from dataclasses import replace

    with Receiver(hanging()) as receiver:
        report = probe(replace(destination(receiver.url()), policy={"timeout": "0.3s"}))
    assert report.steps[-1].name == "event"
    assert "timeout" in report.steps[-1].detail
    assert sum(step.seconds for step in report.steps) < 10


@pytest.mark.parametrize(
    ("origin", "is_ok"), [("*", True), ("https://shop.example", True), ("https://other.example", False), (None, False)]
)
def test_consent_is_asked_for_with_options_and_obeyed(origin, is_ok):
    allowed = {} if origin is None else {"webhook_allowed_origin": origin, "webhook_allowed_rate": "120"}
    with Receiver(status(200, **allowed), status(200)) as receiver:
        to = destination(receiver.url(), body="cloudevents", source="https://shop.example")
        report = probe(to, with_consent=True)
        assert receiver.requests[0].method == "OPTIONS"
        assert receiver.requests[0].header("webhook-request-origin") == "https://shop.example"
        assert len(receiver.requests) == (2 if is_ok else 1)
    assert steps(report)["consent"] is is_ok
    assert report.is_ok is is_ok


def test_curl_line_sends_the_same_request_again(monkeypatch):
    for name, value in {"AUTHORIZATION": "Bearer SECRET4", "X_A": "it's"}.items():
        monkeypatch.setenv(name, value)
    with Receiver(status(200)) as receiver:
        to = destination(
            receiver.url("/services/SECRET2?token=SECRET3"), headers={"authorization": "Bearer SECRET4", "x-a": "it's"}
        )
        report = probe(to)
        assert "SECRET" not in report.curl
        assert set(report.curl_variables) == {"URL", "AUTHORIZATION", "X_A"}
        monkeypatch.setenv("URL", to.settings["url"])
        done = subprocess.run(["/bin/sh", "-c", report.curl], capture_output=True, check=False, timeout=30)
        assert done.returncode == 0, done.stderr
        probed, repeated = receiver.requests
    assert repeated.body == probed.body
    assert repeated.target == probed.target
    assert {name.lower(): value for name, value in repeated.headers} == {
        name.lower(): value for name, value in probed.headers
    }
    assert verify(dict(repeated.headers), repeated.body, SECRET)


def test_curl_line_pins_the_address_that_was_checked():
    with Receiver(status(200)) as receiver:
        report = probe(destination(receiver.url("/", host="hooks.test")), Resolver(lambda _host: ("127.0.0.1",)))
        assert f"--resolve hooks.test:{receiver.port}:127.0.0.1" in report.curl
        assert report.curl.endswith(f"http://hooks.test:{receiver.port}/")
        assert report.curl_variables == {}
