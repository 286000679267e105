"""A loopback HTTP receiver that records what comes byte for byte and plays scripted answers and faults.

    with Receiver(status(500), status(200)) as receiver:    # the n-th request gets the n-th script, the last repeats
        ...
        request = receiver.wait_for(2)[1]

A script is an async function of a `Turn`: one request and the connection to answer it on. It runs in the receiver's
own thread, so tests may be sync or async.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
import threading
import time
from dataclasses import dataclass, field

from tests.loopback import LoopbackServer


@dataclass
class Received:
    """One request as it came."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    head: bytes
    connection: int
    at: float = field(default_factory=time.monotonic)

    def header(self, name: str) -> str | None:
        """Return the one value of a header; fail when it came twice."""
        values = [value for header, value in self.headers if header.lower() == name]
        assert len(values) < 2, f"{name} came {len(values)} times"
        return values[0] if values else None


class Turn:
    """A request and the connection to answer it on."""

    def __init__(self, request: Received | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.request = request
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def close(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        """End the connection with RST: what was sent may be lost."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


class Receiver(LoopbackServer):
    """Listens on loopback while in its `with` block; `greet` runs on each new connection, before a request is read."""

    def __init__(self, *scripts, tls=None, host="127.0.0.1", port=0, greet=None):
        super().__init__(port)
        self.requests: list[Received] = []
        self.connections = 0
        self.server_names: list[str | None] = []
        self._scripts = scripts or (status(200),)
        self._tls = tls
        self._host = host
        self._greet = greet
        self._open: set[asyncio.StreamWriter] = set()
        self._changed = threading.Condition()

    def url(self, path: str = "/hooks", host: str | None = None) -> str:
        host = host or (f"[{self._host}]" if ":" in self._host else self._host)
        return f"{'http' if self._tls is None else 'https'}://{host}:{self.port}{path}"

    def wait_for(self, count: int, seconds: float = 20.0) -> list[Received]:
        """Return the requests once `count` of them have come."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.requests) >= count, seconds), (
                f"{len(self.requests)} of {count} requests within {seconds:g} s"
            )
            return list(self.requests)

    def drop_connections(self) -> None:
        """Close what is open, as a server does with idle connections, and wait until that is done."""
        self._do(lambda: [writer.close() for writer in self._open])

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(
            self._converse, self._host, self.port, ssl=self._tls, backlog=1000, limit=2**20
        )

    def _end(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = self.connections
        self._open.add(writer)
        try:
            if self._greet is not None:
                await self._greet(Turn(None, reader, writer))
            while not writer.is_closing():
                request = await _read_request(reader, connection)
                with self._changed:
                    self.requests.append(request)
                    script = self._scripts[min(len(self.requests), len(self._scripts)) - 1]
                    self._changed.notify_all()
                await script(Turn(request, reader, writer))
        except (ConnectionError, EOFError, asyncio.LimitOverrunError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()


async def _read_request(reader: asyncio.StreamReader, connection: int) -> Received:
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    method, target, _ = lines[0].split(" ", 2)
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines[1:] if line)]
    length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
    return Received(method, target, headers, await reader.readexactly(length), head, connection)


def answer_bytes(code: int, body: bytes = b"", headers: dict[str, str] | None = None) -> bytes:
    fields = {"content-length": str(len(body)), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {code} Scripted\r\n{head}\r\n".encode() + body


def status(code: int, body: bytes = b"", **headers: str):
    """Answer with a status; `retry_after="5"` is the header retry-after."""
    return raw(answer_bytes(code, body, {name.replace("_", "-"): value for name, value in headers.items()}))


def raw(data: bytes, *, close: bool = False):
    """Answer with these bytes, whatever they are."""

    async def play(turn: Turn) -> None:
        await turn.send(data)
        if close:
            turn.close()

    return play


def delayed(seconds: float, script):
    """Play `script` after some seconds, or as soon as the client is gone."""

    async def play(turn: Turn) -> None:
        await asyncio.wait_for(_gone(turn), seconds)

    async def play_late(turn: Turn) -> None:
        try:
            await play(turn)
        except TimeoutError:
            await script(turn)

    return play_late


async def _gone(turn: Turn) -> None:
    while not turn.reader.at_eof():
        await turn.reader.read(1)


def hanging():
    """Answer nothing until the client is gone."""

    async def play(turn: Turn) -> None:
        await _gone(turn)
        turn.close()

    return play


def dripping(data: bytes, after: bytes = b"", every: float = 0.05):
    """Send `after` at once and then `data` for ever, byte by byte."""

    async def play(turn: Turn) -> None:
        await turn.send(after)
        while not turn.writer.is_closing():
            for byte in data:
                await turn.send(bytes([byte]))
                await asyncio.sleep(every)

    return play


def endless(chunk: bytes = b"x" * 65536, code: int = 200):
    """Answer with a chunked body that never ends, at full speed."""

    async def play(turn: Turn) -> None:
        await turn.send(f"HTTP/1.1 {code} Endless\r\ntransfer-encoding: chunked\r\n\r\n".encode())
        while True:
            await turn.send(b"%x\r\n%b\r\n" % (len(chunk), chunk))

    return play


def bomb(code: int = 200, megabytes: int = 10, times: int = 1):
    """Answer with a small gzip body that is very large unpacked."""
    body = b"0" * (megabytes * 2**20)
    for _ in range(times):
        body = gzip.compress(body, 9)
    return status(code, body, content_encoding=", ".join(["gzip"] * times))


def reset(after: bytes = b""):
    """Send `after` and end the connection with RST."""

    async def play(turn: Turn) -> None:
        await turn.send(after)
        turn.reset()

    return play


def closing(script=None):
    """Play `script`, if any, and close without saying so."""

    async def play(turn: Turn) -> None:
        if script is not None:
            await script(turn)
        turn.close()

    return play
