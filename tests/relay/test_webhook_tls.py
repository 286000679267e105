from __future__ import annotations

import asyncio
import itertools

import pytest

from outbox.model import Certainty
from relays.http.resolver import Resolver
from relays.results import Delivered, Refused
from relays.sinks.webhook import WebhookSink
from tests.certificates import Authority
from tests.http2_receiver import Http2Receiver
from tests.receivers import Receiver, status
from tests.webhook_deliveries import delivery, destination


@pytest.fixture(params=["aiohttp", "httpx"])
def engine(request):
    return request.param


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def other_authority(tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    return Authority(folder, "another authority")


def send(receiver: Receiver, engine: str, host: str = "hooks.test", *, seconds: float = 5.0, **settings):
    """Send to `host`, which resolves to loopback."""

    async def run():
        sink = WebhookSink(Resolver(lambda _host: ("127.0.0.1",)))
        try:
            to = destination(receiver.url(host=host), engine=engine, **settings)
            return await sink.send(delivery(to, seconds=seconds))
        finally:
            await sink.close()

    return asyncio.run(run())


def test_own_authority_with_name_sni_and_host_kept_under_a_pinned_address(engine, authority):
    names = []
    with Receiver(status(200), tls=authority.server_context("hooks.test", seen=names)) as receiver:
        assert isinstance(send(receiver, engine, ca_file=authority.file), Delivered)
        assert names == ["hooks.test"]
        assert receiver.requests[0].header("host") == f"hooks.test:{receiver.port}"


def refused_certificate(result, text: str) -> None:
    assert isinstance(result, Refused)
    assert (result.reason, result.certainty, result.permanent) == ("tls_failed", Certainty.NOT_SENT, False)
    assert text in (result.detail or "")


def test_unknown_authority_is_refused_before_anything_is_sent(engine, authority):
    with Receiver(status(200), tls=authority.server_context("hooks.test")) as receiver:
        refused_certificate(send(receiver, engine), "unable to get local issuer certificate")
        assert receiver.requests == []


def test_certificate_of_another_name_is_refused(engine, authority):
    with Receiver(status(200), tls=authority.server_context("other.test")) as receiver:
        refused_certificate(send(receiver, engine, ca_file=authority.file), "hooks.test")
        assert receiver.requests == []


def test_certificate_of_the_name_is_refused_for_the_address(engine, authority):
    with Receiver(status(200), tls=authority.server_context("hooks.test")) as receiver:
        refused_certificate(send(receiver, engine, "127.0.0.1", ca_file=authority.file), "127.0.0.1")


def test_certificate_of_the_address_is_accepted_for_it(engine, authority):
    with Receiver(status(200), tls=authority.server_context("127.0.0.1")) as receiver:
        assert isinstance(send(receiver, engine, "127.0.0.1", ca_file=authority.file), Delivered)


def test_expired_certificate_is_refused(engine, authority):
    with Receiver(status(200), tls=authority.server_context("hooks.test", days=-1)) as receiver:
        refused_certificate(send(receiver, engine, ca_file=authority.file), "expired")


def test_client_certificate_is_shown(engine, authority, other_authority):
    certificate, key = other_authority.issue("relay")
    context = authority.server_context("hooks.test", clients=other_authority)
    with Receiver(status(200), tls=context) as receiver:
        result = send(receiver, engine, ca_file=authority.file, client_certificate=certificate, client_key=key)
        assert isinstance(result, Delivered)


def test_missing_client_certificate_fails_and_says_so(engine, authority, other_authority):
    with Receiver(status(200), tls=authority.server_context("hooks.test", clients=other_authority)) as receiver:
        result = send(receiver, engine, ca_file=authority.file)
        assert isinstance(result, Refused)
        assert result.reason in {"tls_failed", "disconnected"}
        assert receiver.requests == []


def test_certificate_file_that_is_not_there_holds_the_destination(engine, tmp_path):
    with Receiver(status(200)) as receiver:
        result = send(receiver, engine, ca_file=str(tmp_path / "none.pem"))
    assert isinstance(result, Refused)
    assert (result.reason, result.charged) == ("setting_missing", False)
    assert result.hold is not None
    assert (result.hold.state, result.hold.seconds) == ("held", 60)
    assert "No such file" in (result.detail or "")


def test_connections_are_not_shared_between_authorities(engine, authority, other_authority):
    """A destination that trusts another authority must not get a connection its own check would refuse."""

    async def run(receiver):
        sink = WebhookSink(Resolver(lambda _host: ("127.0.0.1",)))
        try:
            url = receiver.url(host="hooks.test")
            trusting = destination(url, engine=engine, ca_file=authority.file)
            other = destination(url, engine=engine, ca_file=other_authority.file)
            return [await sink.send(delivery(to)) for to in (trusting, other, trusting)]
        finally:
            await sink.close()

    with Receiver(status(200), tls=authority.server_context("hooks.test")) as receiver:
        first, second, third = asyncio.run(run(receiver))
        assert isinstance(first, Delivered)
        refused_certificate(second, "certificate")
        assert isinstance(third, Delivered)


def test_http2_is_spoken_where_the_receiver_offers_it(authority, tmp_path):
    """hypercorn and others are no dependency here, so a minimal HTTP/2 receiver answers one request."""
    context = authority.server_context("hooks.test")
    context.set_alpn_protocols(["h2"])
    with Http2Receiver(context) as receiver:
        result = send(receiver, "httpx", ca_file=authority.file, http2=True)
    assert isinstance(result, Delivered)
    assert receiver.bodies == [b'{"type":"order.paid","timestamp":"2026-12-01T00:00:00Z","data":{"total":"1.10"}}']


def frame(kind: int, payload: bytes = b"", *, flags: int = 0, stream: int = 1) -> bytes:
    """Return an HTTP/2 frame (RFC 9113, 4.1)."""
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


HEADERS, PUSH_PROMISE, PING, CONTINUATION = 1, 5, 6, 9
INDEXED_200 = b"\x88"
HTTP2_ATTACKS = {
    "pings": lambda: itertools.repeat(frame(PING, bytes(8), stream=0) * 1000),
    "continuations": lambda: itertools.chain(
        [frame(HEADERS, INDEXED_200)], itertools.repeat(frame(CONTINUATION, b"") * 100)
    ),
    "a push": lambda: [frame(PUSH_PROMISE, (2).to_bytes(4) + b"\x82\x84\x87\x41\x01x", flags=4)],
    "large headers": lambda: [
        frame(HEADERS, INDEXED_200 + b"\x40\x01x\x7f\xa1\x1e" + b"a" * 4000 + b"\xbe" * 3000, flags=4)
    ],
    "no frames": lambda: itertools.repeat(b"\xff" * 1000),
}


@pytest.mark.parametrize("what", HTTP2_ATTACKS)
def test_http2_that_breaks_the_rules_is_never_the_events_fault(what, authority):
    """It must not be dead at once as an event that cannot be sent, nor take the whole time of the attempt."""
    context = authority.server_context("hooks.test")
    context.set_alpn_protocols(["h2"])
    with Http2Receiver(context, HTTP2_ATTACKS[what]()) as receiver:
        result = send(receiver, "httpx", ca_file=authority.file, http2=True, seconds=120)
    assert isinstance(result, Refused)
    assert (result.permanent, result.certainty) == (False, Certainty.AMBIGUOUS)
    assert result.reason in {"bad_response", "disconnected"}
