"""A forward proxy on loopback: tunnels by CONNECT, and passes on requests in absolute form.

It looks no name up: everything leads to loopback, so what it was asked for is what the client sent.
"""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from tests.loopback import LoopbackServer


class HttpProxy(LoopbackServer):
    """Listens while in its `with` block. `connect_answer` is sent instead of tunnelling; None hangs."""

    TUNNEL = b"HTTP/1.1 200 Connection established\r\n\r\n"

    def __init__(self, *, connect_answer: bytes | None = TUNNEL, tls=None):
        super().__init__()
        self.asked: list[str] = []
        self.seen = bytearray()
        self._connect_answer = connect_answer
        self._tls = tls

    def url(self, host: str = "127.0.0.1") -> str:
        return f"{'http' if self._tls is None else 'https'}://{host}:{self.port}"

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._converse, "127.0.0.1", 0, ssl=self._tls)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, _ = head.decode("latin-1").split(" ", 2)
            self.asked.append(f"{method} {target}")
            if method == "CONNECT":
                await self._tunnel(int(target.rpartition(":")[2]), reader, writer)
            else:
                await self._pass_on(urlsplit(target), head, reader, writer)
        except (ConnectionError, EOFError):
            pass
        finally:
            writer.close()

    async def _tunnel(self, port: int, reader, writer) -> None:
        if self._connect_answer is None:
            await reader.read()
            return
        if self._connect_answer is not HttpProxy.TUNNEL:
            writer.write(self._connect_answer)
            await writer.drain()
            return
        theirs, to_them = await asyncio.open_connection("127.0.0.1", port)
        writer.write(self._connect_answer)
        await self._join(reader, writer, theirs, to_them)

    async def _pass_on(self, url, head: bytes, reader, writer) -> None:
        theirs, to_them = await asyncio.open_connection("127.0.0.1", url.port)
        to_them.write(head.replace(f"{url.scheme}://{url.netloc}".encode(), b"", 1))
        await self._join(reader, writer, theirs, to_them)

    async def _join(self, reader, writer, theirs, to_them) -> None:
        await asyncio.wait(
            [
                asyncio.ensure_future(self._copy(reader, to_them, self.seen)),
                asyncio.ensure_future(self._copy(theirs, writer, bytearray())),
            ],
            return_when=asyncio.FIRST_COMPLETED,
        )
        to_them.close()

    async def _copy(self, source, sink, seen: bytearray) -> None:
        while data := await source.read(65536):
            seen += data
            sink.write(data)
            await sink.drain()
