"""The 76 forms and the dynamic cases in which a URL leads to an address that is not public, on both engines."""

from __future__ import annotations

import asyncio
import socket

import pytest

from outbox.errors import InvalidSettings
from outbox.model import Certainty
from relays.http.addresses import Guard, parse_networks
from relays.http.engine import Answer, Failure, Request, Route
from relays.http.resolver import Resolver, lookup
from relays.http.url import Url
from relays.results import Delivered, Refused
from relays.sinks.webhook import WebhookSink
from relays.sinks.webhook.engines import open_engine
from tests.dials import watched_dials
from tests.receivers import Receiver, status
from tests.webhook_deliveries import delivery, destination

ENGINES = ["aiohttp", "httpx"]

STOP = "\N{IDEOGRAPHIC FULL STOP}"
HOSTS = [
    "127.0.0.1", "127.0.0.53", "127.255.255.254", "localhost", "LOCALHOST", "localhost.", "ip6-localhost", "0.0.0.0",  # noqa: S104 - to be refused
    "0", "2130706433", "0x7f000001", "0x7f.0.0.1", "017700000001", "0177.0.0.1", "127.1", "127.0.1", "0x7f.1",
    f"127{STOP}0{STOP}0{STOP}1", "①②⑦.⓪.⓪.①", "%31%32%37.0.0.1", "10.0.0.1", "172.16.0.1", "172.31.255.255",
    "192.168.1.1", "100.64.0.1", "100.100.100.200", "169.254.169.254", "169.254.170.2", "2852039166", "0xa9fea9fe",
    "168.63.129.16", "192.0.0.192", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "192.88.99.1",
    "224.0.0.1", "240.0.0.1", "255.255.255.255", "[::]", "[::1]", "[0:0:0:0:0:0:0:1]", "[::127.0.0.1]",
    "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:a9fe:a9fe]", "[::ffff:0:127.0.0.1]", "[64:ff9b::7f00:1]",
    "[64:ff9b::169.254.169.254]", "[64:ff9b:1::a9fe:a9fe]", "[2002:7f00:1::]", "[2002:a9fe:a9fe::]",
    "[2001:0:4136:e378:8000:63bf:80ff:fffe]", "[2001:db8::1]", "[3fff::1]", "[5f00::1]", "[100::1]", "[fc00::1]",
    "[fd00:ec2::254]", "[fe80::1]", "[fe80::1%eth0]", "[fe80::1%25eth0]", "[fec0::1]", "[ff02::1]",
]  # fmt: skip
URLS = [
    "http://example.com@127.0.0.1:{port}/",
    "http://example.com:80@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}#@example.com/",
    "http://example.com\\@127.0.0.1:{port}/",
    "http://example.com%0d%0aHost:127.0.0.1:{port}/",
    "ftp://127.0.0.1:{port}/",
    "gopher://127.0.0.1:{port}/",
    "file:///etc/passwd",
    "unix:///var/run/docker.sock",
    "//127.0.0.1:{port}/",
    "http:///127.0.0.1:{port}",
]
FORMS = [f"http://{host}:{{port}}/" for host in HOSTS] + URLS

LOCAL_NAMES = {"localhost": ("127.0.0.1", "::1"), "ip6-localhost": ("::1",), "example.com": ("127.0.0.1",)}


def ask(host: str) -> tuple[str, ...]:
    """Resolve as a machine would that knows every local name; numeric forms go to the system."""
    name = host.lower().rstrip(".")
    if name in LOCAL_NAMES:
        return LOCAL_NAMES[name]
    return tuple(str(info[4][0]) for info in socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST))


@pytest.fixture(scope="module")
def listener():
    with Receiver(status(200), host="0.0.0.0") as receiver:  # noqa: S104 - to see what a hole would reach
        yield receiver


def test_battery_is_complete():
    assert len(FORMS) == len(set(FORMS)) == 76


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("form", FORMS)
def test_w04_form_is_never_dialled_by_the_sink(engine, form, listener):
    to = destination(form.format(port=listener.port), engine=engine, allow_networks=[])

    async def send():
        sink = WebhookSink(Resolver(ask))
        try:
            return await sink.send(delivery(to))
        finally:
            await sink.close()

    with watched_dials() as dials:
        result = asyncio.run(send())
    assert dials == []
    assert listener.connections == 0
    assert isinstance(result, Refused)
    assert result.certainty is Certainty.NOT_SENT
    assert result.reason in {"address_refused", "invalid_settings"}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("host", HOSTS)
def test_w04_form_is_never_dialled_by_an_engine_that_gets_it_unparsed(engine, host, listener):
    try:
        request = Request(Route(Url("http", host, listener.port, "/")), {}, b"")
    except ValueError:
        assert not host.isascii()  # such a host header is never written
        return
    with watched_dials() as dials:
        outcome = exchange(engine, request, ask)
    assert dials == []
    assert listener.connections == 0
    assert isinstance(outcome, Failure)
    assert outcome.certainty is Certainty.NOT_SENT


@pytest.mark.parametrize("form", FORMS)
def test_w04_form_is_refused_when_a_destination_is_saved(form, monkeypatch):
    monkeypatch.setattr("relays.sinks.webhook.saving.lookup", ask)
    with pytest.raises(InvalidSettings, match=r"^url: "):
        WebhookSink.check({"url": form.format(port=8080), "allow_http": True})


def test_name_that_does_not_resolve_here_can_be_saved(monkeypatch):
    monkeypatch.setattr("relays.sinks.webhook.saving.lookup", no_such_name)
    WebhookSink.check({"url": "https://shop.example/"})


def test_name_that_hangs_does_not_keep_saving(monkeypatch):
    import threading

    release = threading.Event()
    monkeypatch.setattr("relays.sinks.webhook.saving.RESOLVE_SECONDS", 0.05)
    monkeypatch.setattr("relays.sinks.webhook.saving.lookup", lambda _host: release.wait(20) and ())
    WebhookSink.check({"url": "https://shop.example/"})
    release.set()


def no_such_name(host: str):
    raise OSError(f"no {host}")


def exchange(engine: str, request: Request, names, *, times: int = 1):
    """Send `request` with an engine that resolves by `names`; return the last outcome."""

    async def run():
        opened = open_engine(engine, Resolver(names))
        try:
            outcomes = [await opened.exchange(request, 5) for _ in range(times)]
        finally:
            await opened.close()
        return outcomes[-1]

    return asyncio.run(run())


def named(host: str, port: int, allowed: tuple[str, ...] = ()) -> Request:
    guard = Guard(parse_networks(allowed, "allow_networks"))
    return Request(Route(Url("http", host, port, "/"), guard=guard), {}, b"")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "addresses",
    [
        ("127.0.0.1",),
        ("10.0.0.1",),
        ("8.8.8.8", "127.0.0.1"),
        ("127.0.0.1", "8.8.8.8"),
        ("2606:4700::1", "::1"),
        ("::ffff:169.254.169.254",),
        ("64:ff9b::a9fe:a9fe",),
        ("fe80::1%lo",),
        ("nonsense",),
    ],
)
def test_w04_name_with_any_refused_address_is_not_dialled(engine, addresses, listener):
    with watched_dials() as dials:
        outcome = exchange(engine, named("hooks.test", listener.port), lambda _host: addresses)
    assert dials == []
    assert listener.connections == 0
    assert isinstance(outcome, Failure)
    assert outcome.reason == "address_refused"
    assert "via name hooks.test" in outcome.detail
    assert outcome.certainty is Certainty.NOT_SENT


@pytest.mark.parametrize("engine", ENGINES)
def test_allowed_network_is_dialled_by_name_and_by_address(engine):
    with Receiver(status(204)) as receiver:
        for host in ("hooks.test", "127.0.0.1"):
            request = named(host, receiver.port, ("127.0.0.0/8",))
            outcome = exchange(engine, request, {"hooks.test": ("127.0.0.1",), "127.0.0.1": ("127.0.0.1",)}.__getitem__)
            assert isinstance(outcome, Answer)
            assert outcome.peer == "127.0.0.1"
        assert [request.header("host") for request in receiver.requests] == [
            f"hooks.test:{receiver.port}",
            f"127.0.0.1:{receiver.port}",
        ]


@pytest.mark.parametrize("engine", ENGINES)
def test_name_is_resolved_once_and_that_answer_is_dialled(engine):
    answers = iter([("127.0.0.1",), ("169.254.169.254",), ("169.254.169.254",)])
    asked = []

    def rebinding(host):
        asked.append(host)
        return next(answers)

    with Receiver(status(200)) as receiver, watched_dials() as dials:
        outcome = exchange(engine, named("hooks.test", receiver.port, ("127.0.0.0/8",)), rebinding)
    assert isinstance(outcome, Answer)
    assert dials == [("127.0.0.1", receiver.port)]
    assert asked == ["hooks.test"]


@pytest.mark.parametrize("engine", ENGINES)
def test_kept_connection_keeps_its_checked_peer_when_the_name_moves(engine):
    asked = []

    def rebinding(host):
        asked.append(host)
        return ("127.0.0.1",) if len(asked) == 1 else ("169.254.169.254",)

    with Receiver(status(200)) as receiver:
        outcome = exchange(engine, named("hooks.test", receiver.port, ("127.0.0.0/8",)), rebinding, times=3)
        assert isinstance(outcome, Answer)
        assert outcome.connection_reused
        assert outcome.peer == "127.0.0.1"
        assert receiver.connections == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_kept_connection_is_not_lent_to_a_destination_that_may_not_dial_it(engine):
    async def run(port):
        opened = open_engine(engine, Resolver(lambda _host: ("127.0.0.1",)))
        try:
            allowed = await opened.exchange(named("hooks.test", port, ("127.0.0.0/8",)), 5)
            return allowed, await opened.exchange(named("hooks.test", port), 5)
        finally:
            await opened.close()

    with Receiver(status(200)) as receiver:
        allowed, refused = asyncio.run(run(receiver.port))
        assert isinstance(allowed, Answer)
        assert isinstance(refused, Failure)
        assert (refused.reason, refused.certainty) == ("address_refused", Certainty.NOT_SENT)
        assert len(receiver.requests) == 1


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_w04_redirect_to_the_metadata_service_is_not_followed(engine, code):
    with Receiver(status(code, location="http://169.254.169.254/latest")) as receiver, watched_dials() as dials:
        outcome = exchange(engine, named("127.0.0.1", receiver.port, ("127.0.0.0/8",)), lookup)
        assert isinstance(outcome, Answer)
        assert outcome.status == code
        assert dials == [("127.0.0.1", receiver.port)]
        assert len(receiver.requests) == 1


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-a", "b\r\nx-evil: 1"),
        ("x-a", "b\nx-evil: 1"),
        ("x-a", "b\0"),
        ("x-a\r\nx-evil", "1"),
    ],
)
def test_w08_engine_sends_nothing_with_a_header_that_could_start_another(engine, name, value):
    with Receiver(status(200)) as receiver:
        request = named("127.0.0.1", receiver.port, ("127.0.0.0/8",))
        request = request._replace(headers={name: value})
        outcome = exchange(engine, request, lookup)
        assert isinstance(outcome, Failure)
        assert outcome.reason == "invalid_request"
        assert receiver.requests == []


@pytest.mark.parametrize("engine", ENGINES)
def test_environment_proxies_are_ignored(engine, monkeypatch):
    with Receiver(status(200)) as receiver, Receiver(status(502)) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url("/"))
        outcome = exchange(engine, named("127.0.0.1", receiver.port, ("127.0.0.0/8",)), lookup)
        assert isinstance(outcome, Answer)
        assert outcome.status == 200
        assert proxy.connections == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_w04_name_that_leads_to_a_private_address_is_tried_three_times(engine):
    async def send(attempt):
        sink = WebhookSink(Resolver(lambda _host: ("10.0.0.1",)))
        try:
            to = destination("https://hooks.test/", engine=engine, allow_networks=[])
            return await sink.send(delivery(to, attempt=attempt, interruptions=0))
        finally:
            await sink.close()

    assert [asyncio.run(send(attempt)).permanent for attempt in (1, 2, 3)] == [False, False, True]


@pytest.mark.parametrize("engine", ENGINES)
def test_address_in_the_url_is_refused_for_good(engine):
    async def send():
        sink = WebhookSink()
        try:
            return await sink.send(delivery(destination("https://10.0.0.1/", engine=engine, allow_networks=[])))
        finally:
            await sink.close()

    result = asyncio.run(send())
    assert not isinstance(result, Delivered)
    assert result.permanent
    assert result.detail == (
        '10.0.0.1: address not allowed: 10.0.0.1 is not public (private); allow with allow_networks = ["10.0.0.1/32"]'
    )
