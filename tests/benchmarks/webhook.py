"""Webhook rates in one run: the bare HTTP library, our engine around it, and the signing sink.

    python -m tests.benchmarks.webhook [--seconds 3] [--rounds 3] [--engine aiohttp] [--relay EVENTS]
    python -m tests.benchmarks.webhook --destinations 10000 [--relay 20000]

Signed 1 KiB POSTs on 50 connections to a receiver in a process of its own. They are measured in turns, several
rounds, and compared by their best round: on a shared machine the worst rounds measure the neighbours. `--relay` adds
a real relay, from claim to settled attempt, on an embedded PostgreSQL. `--destinations` measures many hosts instead:
through the sink alone, or with `--relay` that many deliveries through one relay process, and its largest memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext

import aiohttp
import httpx2
import psycopg

from outbox.migrate import migrate
from relays.http.addresses import Guard, parse_networks
from relays.http.engine import Answer, Request, Route
from relays.http.url import parse_url
from relays.results import Delivered
from relays.sinks.webhook import WebhookSink
from relays.sinks.webhook.engines import open_engine
from tests.queues import add_destination
from tests.servers import start_server
from tests.webhook_deliveries import delivery, destination

CONNECTIONS = 50
PAYLOAD = json.dumps({"text": "x" * 900}).encode()
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n" + b'{"ok":true}'
HEADERS = {"content-type": "application/json", "user-agent": "bench", "accept": "*/*", "accept-encoding": "identity"}


class _Receiver(asyncio.Protocol):
    """Answers 200 to whatever ends with a body of the announced length: as little work as can be."""

    def connection_made(self, transport) -> None:
        self._transport = transport
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            at = head.find(b"content-length: ")
            length = int(head[at + 16 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._buffer) < end + 4 + length:
                return
            self._buffer = self._buffer[end + 4 + length :]
            self._transport.write(ANSWER)


def _serve(sockets: list[socket.socket]) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        servers = [await loop.create_server(_Receiver, sock=sock) for sock in sockets]
        await asyncio.gather(*(server.serve_forever() for server in servers))

    asyncio.run(run())


async def _rate(send, seconds: float) -> float:
    """Return how often per second `send()` comes back, 50 at a time."""
    done = 0
    until = time.monotonic() + seconds

    async def work() -> None:
        nonlocal done
        while time.monotonic() < until:
            await send()
            done += 1

    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
    return done / seconds


async def _bare_aiohttp(url: str, seconds: float) -> float:
    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def send() -> None:
            async with session.post(url, data=PAYLOAD, headers=HEADERS) as response:
                await response.read()

        return await _rate(send, seconds)


async def _bare_httpx(url: str, seconds: float) -> float:
    limits = httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    async with httpx2.AsyncClient(limits=limits, trust_env=False) as client:

        async def send() -> None:
            await client.post(url, content=PAYLOAD, headers=HEADERS)

        return await _rate(send, seconds)


async def _engine(name: str, url: str, seconds: float) -> float:
    engine = open_engine(name)
    guard = Guard(parse_networks(["127.0.0.0/8"], "allow_networks"))
    request = Request(Route(parse_url(url, "url"), HEADERS, guard), {}, PAYLOAD)

    async def send() -> None:
        assert isinstance(await engine.exchange(request, 20), Answer)

    try:
        return await _rate(send, seconds)
    finally:
        await engine.close()


async def _sink(name: str, url: str, seconds: float) -> float:
    sink = WebhookSink()
    one = delivery(destination(url, engine=name), body=PAYLOAD, seconds=20)

    async def send() -> None:
        assert isinstance(await sink.send(one), Delivered)

    try:
        return await _rate(send, seconds)
    finally:
        await sink.close()


async def _many_destinations(urls: list[str], count: int) -> tuple[float, float, float]:
    """Return the rate of the first and of the last fifth of `count` destinations, and memory in MiB at the end."""
    sink = WebhookSink()
    ones = [delivery(destination(f"{urls[n % len(urls)]}/{n}"), body=PAYLOAD, seconds=20) for n in range(count)]
    for n, one in enumerate(ones):
        one.destination.settings["url"] = _url_of_host(one.destination.settings["url"], n)
    times: list[float] = []

    async def work(queue: list) -> None:
        while queue:
            assert isinstance(await sink.send(queue.pop()), Delivered)
            times.append(time.monotonic())

    for _ in range(3):
        queue = list(ones)
        began = time.monotonic()
        await asyncio.gather(*(work(queue) for _ in range(CONNECTIONS)))
    fifth = count // 5
    first = fifth / (times[-count + fifth] - began)
    last = fifth / (times[-1] - times[-1 - fifth])
    await sink.close()
    return first, last, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _url_of_host(url: str, number: int) -> str:
    """Return `url` on a host of its own: all of 127.0.0.0/8 is loopback."""
    return url.replace("127.0.0.1", f"127.{1 + number // 65536}.{number // 256 % 256}.{number % 256}")


@contextmanager
def _database(server: str):
    """Return the DSN of a new migrated database and a connection to it."""
    name = f"bench_{time.monotonic_ns()}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"create database {name}")
    dsn = psycopg.conninfo.make_conninfo(server, dbname=name)
    with psycopg.connect(dsn, autocommit=True) as connection:
        migrate(connection)
        yield dsn, connection


def _drain(dsn: str, concurrency: int) -> float:
    """Run a relay until nothing is due; return its largest memory in MiB."""
    command = [sys.executable, "-m", "relays", "--dsn", dsn, "--drain", "--concurrency", str(concurrency)]
    relay = subprocess.Popen([*command, "--log-level", "warning"])
    _, code, usage = os.wait4(relay.pid, 0)
    assert os.waitstatus_to_exitcode(code) == 0
    return usage.ru_maxrss / 1024


def _delivered(connection) -> tuple[int, float]:
    """Return how many were delivered, and the seconds from the first attempt to the end of the last."""
    return connection.execute(
        "select count(*) filter (where outcome = 'delivered'),"
        " extract(epoch from max(started_at + duration_ms * interval '1 ms') - min(started_at))::float8"
        " from outbox.attempts"
    ).fetchone()


def _relayed_to_many(server: str, url: str, destinations: int, deliveries: int) -> tuple[float, float]:
    """Return deliveries per second of one relay to so many hosts, and its largest memory in MiB."""
    with _database(server) as (dsn, connection):
        with connection.transaction():
            for number in range(destinations):
                settings = destination(_url_of_host(f"{url}/{number}", number)).settings
                add_destination(connection, f"host-{number}", sink="webhook", settings=settings)
        for _ in range(max(deliveries // destinations, 1)):
            connection.execute("select outbox.record_event('order.paid', %s::jsonb)", [PAYLOAD.decode()])
        memory = _drain(dsn, 500)
        delivered, seconds = _delivered(connection)
    assert delivered == max(deliveries // destinations, 1) * destinations
    return delivered / seconds, memory


def _relayed(server: str, url: str, engine: str, events: int) -> float:
    """Return deliveries per second of a relay process that drains `events`: first attempt to last settle."""
    with _database(server) as (dsn, connection):
        settings = destination(url, engine=engine).settings
        add_destination(connection, sink="webhook", settings=settings, policy={"max_in_flight": CONNECTIONS})
        connection.execute(
            "select outbox.record_event('order.paid', %(payload)s::jsonb) from generate_series(1, %(events)s)",
            {"payload": PAYLOAD.decode(), "events": events},
        )
        _drain(dsn, CONNECTIONS)
        delivered, seconds = _delivered(connection)
    assert delivered == events
    return delivered / seconds


@contextmanager
def receiver():
    """Run the receiver in a process of its own and return its URL."""
    listener = socket.create_server(("0.0.0.0", 0), backlog=1000)  # noqa: S104 - all of 127.0.0.0/8 is loopback
    server = multiprocessing.get_context("fork").Process(target=_serve, args=([listener],), daemon=True)
    server.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.kill()


def measured(engine: str, seconds: float, rounds: int, events: int) -> dict[str, float]:
    """Return the best rate of each; with `events`, also that of a relay that drains so many."""
    with receiver() as url, start_server("embedded", None) if events else nullcontext("") as server:
        bare = _bare_aiohttp if engine == "aiohttp" else _bare_httpx
        runs = {
            "bare library": lambda: asyncio.run(bare(url, seconds)),
            "our engine": lambda: asyncio.run(_engine(engine, url, seconds)),
            "signing sink": lambda: asyncio.run(_sink(engine, url, seconds)),
        }
        if events:
            runs["whole relay"] = lambda: _relayed(server, url, engine, events)
        best = dict.fromkeys(runs, 0.0)
        for _ in range(rounds):
            for name, run in runs.items():
                best[name] = max(best[name], run())
    return best


def rows(engine: str = "aiohttp", seconds: float = 3, rounds: int = 3, events: int = 20_000) -> list[list[str]]:
    """Return the table of `make bench`."""
    best = measured(engine, seconds, rounds, events)
    return [[name, f"{rate:,.0f}", f"{rate / best['bare library']:.2f}"] for name, rate in best.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", choices=["aiohttp", "httpx"], default="aiohttp")
    parser.add_argument("--relay", type=int, default=0, metavar="EVENTS", help="also: a relay that drains so many")
    parser.add_argument("--destinations", type=int, default=0, help="instead: one event to each of so many hosts")
    options = parser.parse_args()
    if options.destinations and options.relay:
        with receiver() as url, start_server("embedded", None) as server:
            rate, memory = _relayed_to_many(server, url, options.destinations, options.relay)
        print(f"{options.destinations} hosts through one relay: {rate:,.0f}/s, {memory:.0f} MiB")
        return
    if options.destinations:
        with receiver() as url:
            first, last, memory = asyncio.run(_many_destinations([url], options.destinations))
        print(f"{options.destinations} hosts: first fifth {first:,.0f}/s, last fifth {last:,.0f}/s, {memory:.0f} MiB")
        return
    for name, rate, share in rows(options.engine, options.seconds, options.rounds, options.relay):
        print(f"{name:<14}{rate:>8}/s{share:>8} of bare")


if __name__ == "__main__":
    main()
