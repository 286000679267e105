"""Webhooks through a forward proxy: what it learns, what its refusals mean, and that it speaks for nobody else."""

from __future__ import annotations

import asyncio
import socket

import pytest

from outbox.model import Certainty
from relays.http.resolver import Resolver
from relays.results import Delivered, Refused
from relays.sinks.webhook import WebhookSink
from tests.certificates import Authority
from tests.http_proxy import HttpProxy
from tests.receivers import Receiver, closing, raw, reset, status
from tests.webhook_deliveries import delivery, destination


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def tls(authority):
    return authority.server_context("hooks.test")


def send(url: str, proxy: str, *, times: int = 1, seconds: float = 20.0, **settings):
    """Send through `proxy`; the relay itself knows no name but the proxy's."""
    looked_up = []

    def ask(host: str) -> tuple[str, ...]:
        looked_up.append(host)
        if host == "proxy.test":
            return ("127.0.0.1",)
        raise OSError("unknown name")

    async def run():
        sink = WebhookSink(Resolver(ask))
        try:
            to = destination(url, engine="httpx", proxy=proxy, **settings)
            return [await sink.send(delivery(to, seconds=seconds)) for _ in range(times)]
        finally:
            await sink.close()

    results = asyncio.run(run())
    assert set(looked_up) <= {"proxy.test"}
    return results[0] if times == 1 else results


def test_https_goes_through_a_tunnel_that_the_proxy_cannot_look_into(authority, tls):
    with Receiver(status(200), tls=tls) as receiver, HttpProxy() as proxy:
        results = send(receiver.url(host="hooks.test"), proxy.url("proxy.test"), times=3, ca_file=authority.file)
        assert all(isinstance(result, Delivered) for result in results)
        assert proxy.asked == [f"CONNECT hooks.test:{receiver.port}"], (
            "the proxy looks the name up; one tunnel serves all"
        )
        assert len(receiver.requests) == 3
        assert receiver.requests[0].header("host") == f"hooks.test:{receiver.port}"
        assert b"webhook-signature" not in proxy.seen


def test_a_proxy_can_be_reached_by_tls_too(authority, tls, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", authority.file)
    with (
        Receiver(status(200), tls=tls) as receiver,
        HttpProxy(tls=authority.server_context("proxy.test")) as proxy,
    ):
        result = send(receiver.url(host="hooks.test"), proxy.url("proxy.test"), ca_file=authority.file)
        assert isinstance(result, Delivered), result
        assert proxy.asked == [f"CONNECT hooks.test:{receiver.port}"]


def test_plain_http_is_passed_on_in_absolute_form():
    with Receiver(status(200)) as receiver, HttpProxy() as proxy:
        url = receiver.url("/hooks?a=1", host="hooks.test")
        assert isinstance(send(url, proxy.url("proxy.test")), Delivered)
        assert proxy.asked == [f"POST {url}"]
        assert receiver.requests[0].target == "/hooks?a=1"


def test_a_certificate_of_another_name_is_refused_through_the_tunnel(authority):
    with Receiver(status(200), tls=authority.server_context("other.test")) as receiver, HttpProxy() as proxy:
        result = send(receiver.url(host="hooks.test"), proxy.url("proxy.test"), ca_file=authority.file)
        assert (result.reason, result.certainty) == ("tls_failed", Certainty.NOT_SENT)
        assert receiver.requests == []


REFUSALS = {
    "forbidden": b"HTTP/1.1 403 Forbidden by policy\r\ncontent-length: 0\r\n\r\n",
    "login wanted": b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n",
    "cannot reach it": b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n",
    "no http": b"SSH-2.0-OpenSSH_9.6\r\n",
    "closes": b"",
}


@pytest.mark.parametrize("answer", REFUSALS)
def test_a_proxy_that_opens_no_tunnel_means_not_sent_and_is_tried_again(answer):
    with HttpProxy(connect_answer=REFUSALS[answer]) as proxy:
        result = send("https://hooks.test/", proxy.url("proxy.test"))
    assert isinstance(result, Refused)
    assert (result.certainty, result.permanent, result.status) == (Certainty.NOT_SENT, False, None)
    if REFUSALS[answer].startswith(b"HTTP"):
        said = REFUSALS[answer].split(b"\r\n")[0].split(b" ", 1)[1].decode().lower()
        assert f"the proxy answered {said}" in result.detail


def test_a_proxy_that_hangs_is_given_up_after_the_connect_timeout():
    with HttpProxy(connect_answer=None) as proxy:
        result = send("https://hooks.test/", proxy.url("proxy.test"), connect_timeout="200ms")
    assert (result.reason, result.certainty) == ("connect_timeout", Certainty.NOT_SENT)


def test_a_proxy_that_is_not_there_means_not_sent():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    result = send("https://hooks.test/", f"http://proxy.test:{port}")
    assert (result.reason, result.certainty) == ("connect_failed", Certainty.NOT_SENT)


@pytest.mark.parametrize("script", [raw(b"no http at all\r\n\r\n"), closing(), reset(), raw(b"HTTP/1.1 2", close=True)])
def test_the_200_of_the_tunnel_is_never_taken_for_the_receivers(script, authority, tls):
    with Receiver(script, tls=tls) as receiver, HttpProxy() as proxy:
        result = send(receiver.url(host="hooks.test"), proxy.url("proxy.test"), ca_file=authority.file)
        assert len(receiver.requests) == 1
    assert isinstance(result, Refused)
    assert (result.status, result.certainty) == (None, Certainty.AMBIGUOUS)


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:7f00:1]", "10.0.0.1"])
def test_an_address_in_the_url_is_refused_before_the_proxy_is_asked(host):
    with HttpProxy() as proxy:
        result = send(f"https://{host}/", proxy.url("proxy.test"), allow_networks=[])
        assert (result.reason, result.permanent) == ("address_refused", True)
        assert proxy.asked == []
