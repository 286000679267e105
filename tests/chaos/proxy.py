"""A TCP proxy that breaks connections as networks do: resets, silence without a FIN, delay."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass, field

from tests.loopback import LoopbackServer

__all__ = ["Proxy", "upstream"]

FORGET_SECONDS = 20.0
"""When the far side of a silent connection is told: PostgreSQL and receivers have keepalives, and room for so many."""


@dataclass(eq=False)
class _Pair:
    """A client's connection and the one made for it; lost ones pass nothing on, not even their end."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    is_lost: bool = field(default=False)


class Proxy(LoopbackServer):
    """Forwards a loopback port to `upstream`, (host, port) or the path of a Unix socket, while in its `with` block.

    Connections that were silent stay so for ever, as after a firewall has forgotten them; new ones work again.
    """

    start_seconds = 10.0
    act_seconds = 30.0

    def __init__(self, upstream: tuple[str, int] | str) -> None:
        super().__init__()
        self._upstream = upstream
        self._pairs: set[_Pair] = set()
        self._is_silent = False
        self._delay_seconds = 0.0

    def reset(self) -> None:
        """End all connections with RST."""
        self._do(lambda: [_abort(writer) for pair in self._pairs for writer in (pair.client, pair.server)])

    def silence(self) -> None:
        """Swallow everything from now on, on the connections there are and on new ones."""
        self._do(self._silence)

    def slow(self, seconds: float) -> None:
        """Pass on each piece `seconds` later."""
        self._do(lambda: setattr(self, "_delay_seconds", seconds))

    def heal(self) -> None:
        """Let new connections work, and at full speed; what was silenced stays silent."""
        self._do(self._heal)

    def _silence(self) -> None:
        self._is_silent = True
        for pair in self._pairs:
            self._lose(pair)

    def _lose(self, pair: _Pair) -> None:
        pair.is_lost = True
        self._loop.call_later(FORGET_SECONDS, _abort, pair.server)

    def _heal(self) -> None:
        self._is_silent = False
        self._delay_seconds = 0.0

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._connect, "127.0.0.1", 0, backlog=1000)

    def _end(self) -> None:
        for pair in list(self._pairs):
            _abort(pair.client)
            _abort(pair.server)

    async def _connect(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        try:
            if isinstance(self._upstream, str):
                answers, server = await asyncio.open_unix_connection(self._upstream)
            else:
                answers, server = await asyncio.open_connection(*self._upstream)
        except OSError:
            _abort(client)
            return
        pair = _Pair(client, server)
        self._pairs.add(pair)
        if self._is_silent:
            self._lose(pair)
        try:
            await asyncio.gather(self._pump(pair, reader, server), self._pump(pair, answers, client))
        finally:
            self._pairs.discard(pair)

    async def _pump(self, pair: _Pair, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what comes until it ends, and the end."""
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if self._delay_seconds:
                    await asyncio.sleep(self._delay_seconds)
                if not pair.is_lost:
                    writer.write(data)
                    await writer.drain()
        if not pair.is_lost:
            writer.close()


def upstream(parts: dict[str, str]) -> tuple[str, int] | str:
    """Return where a DSN, given as its parts, leads."""
    host, port = parts["host"], int(parts.get("port", "5432"))
    return f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, port)


def _abort(writer: asyncio.StreamWriter) -> None:
    """End a connection with RST where it is TCP."""
    sock = writer.get_extra_info("socket")
    if sock.family == socket.AF_INET and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
