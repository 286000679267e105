"""The default engine, on aiohttp's dialling and its HTTP parser.

aiohttp's session is left out: more than half of a request's time goes into redirects, cookies, tracing and copies of
headers, none of which a webhook may have. What is sent is written here, byte for byte.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from functools import lru_cache, partial
from typing import TYPE_CHECKING, cast

import aiohttp
from aiohttp import abc
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from relays.deadlines import Deadlines
from relays.http.engine import BODY_SECONDS, READ_BYTES, Phase, header_lines
from relays.http.exchange import Exchange, current_exchange, plain
from relays.http.pool import IdleConnections
from relays.http.resolver import Resolver

if TYPE_CHECKING:
    from aiohttp.connector import Connection

    from relays.http.addresses import Guard
    from relays.http.engine import Answer, Failure, Request, Route

__all__ = ["AiohttpEngine"]

LONGEST_HEADER_FIELD = 32 * 1024

_SWITCHING_PROTOCOLS = 101
_FIRST_FINAL_STATUS = 200


class AiohttpEngine:
    """One pool for all destinations; `resolver` is what the guard sees and what is dialled."""

    def __init__(self, resolver: Resolver | None = None) -> None:
        self._connector = _Connector(resolver or Resolver())
        self._idle = IdleConnections()
        self._deadlines = Deadlines()
        self._loop = asyncio.get_running_loop()

    async def exchange(self, request: Request, seconds: float) -> Answer | Failure:
        """Send `request` and return what came of it within `seconds` in all; raises only when cancelled."""
        exchange = Exchange(request)
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._deadlines.begin(task, exchange.started_at, seconds)
        try:
            return await self._send(request, exchange)
        except asyncio.CancelledError:
            if not self._deadlines.end(task) or task.cancelling():
                raise
            return exchange.timed_out(seconds)
        except Exception as error:  # noqa: BLE001 - an attempt always has an outcome
            return _outcome(exchange, error)
        finally:
            self._deadlines.end(task)

    async def close(self) -> None:
        """Close all connections."""
        self._idle.close()
        await self._connector.close()

    async def _send(self, request: Request, exchange: Exchange) -> Answer | Failure:
        data = _request_bytes(request)
        url = request.route.url
        receiver = (url.host, url.port, url.scheme, request.route.tls)
        connection = None if request.is_fresh else self._idle.take(receiver, exchange.started_at)
        if connection is None:
            connection = await self._connect(request.route, exchange)
        try:
            protocol = cast("_Protocol", connection.protocol)
            protocol.begin(exchange)
            cast("asyncio.Transport", protocol.transport).write(data)
            is_complete = await _read_answer(protocol, exchange)
        except BaseException:
            connection.close()
            raise
        answer = exchange.answer(is_complete=is_complete)
        protocol.exchange = None
        self._idle.keep(receiver, connection, exchange.started_at + answer.timings.total)
        return answer

    async def _connect(self, route: Route, exchange: Exchange) -> Connection:
        token = current_exchange.set(exchange)
        try:
            url = URL(f"{route.url.scheme}://{route.url.authority}/", encoded=True)
            # aiohttp dials for a request of its own; this one is never sent.
            wanted = aiohttp.ClientRequest("POST", url, loop=self._loop, ssl=route.tls or True)
            return await self._connector.connect(wanted, [], _limits(route.connect_seconds))
        finally:
            current_exchange.reset(token)


def _request_bytes(request: Request) -> bytes:
    """Return the request as it goes out.

    Raises:
        ValueError: a header holds what could start another header, or is not ASCII.
    """
    route, body = request.route, request.body
    head = (
        f"{request.method} {route.url.target} HTTP/1.1\r\n{route.fixed_lines}{header_lines(request.headers)}"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + body


async def _read_answer(protocol: _Protocol, exchange: Exchange) -> bool:
    """Read status, headers and what may be read of the body; return whether its end was reached."""
    message, body = await protocol.read()
    while message.code < _FIRST_FINAL_STATUS and message.code != _SWITCHING_PROTOCOLS:
        message, body = await protocol.read()
    exchange.answered(message.code, message.headers)
    if message.code == _SWITCHING_PROTOCOLS:
        protocol.force_close()  # what comes next is not HTTP
    if body.is_eof():  # usual: it came together with the headers
        exchange.keep(body.read_nowait())
        return True
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while chunk := await body.readany():
                if not exchange.keep(chunk):
                    return False
    except (aiohttp.ClientError, TimeoutError):  # the status has decided already
        return False
    return True


def _outcome(exchange: Exchange, error: Exception) -> Answer | Failure:
    if exchange.is_flooded:
        return exchange.unreadable("the answer has no end")
    if isinstance(error, HttpProcessingError):
        return exchange.unreadable(f"the answer is no HTTP/1.1: {plain(error)}")
    return exchange.broke(_cause(error))


def _cause(error: Exception) -> Exception:
    """Return the system's own error in one of aiohttp's."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return error.certificate_error
        case aiohttp.ClientConnectorError():
            return error.os_error
        case aiohttp.ClientConnectionError() if isinstance(error.__cause__, ssl.SSLError):
            return error.__cause__
        case aiohttp.ClientError() if not isinstance(error, OSError | ValueError):
            return ConnectionError(plain(error))
        case _:
            return error


class _Protocol(ResponseHandler):
    """aiohttp's connection, which also tells the exchange using it when the first byte comes."""

    exchange: Exchange | None = None
    guard: Guard | None = None
    peer: str | None = None

    def begin(self, exchange: Exchange) -> None:
        """Put the connection to use for `exchange`.

        Its peer is checked again when the guard is another one: it may be another destination's exception.
        """
        route = exchange.request.route
        is_reused = self.peer is not None
        if self.peer is None:
            self.peer = str(cast("asyncio.Transport", self.transport).get_extra_info("peername")[0])
            self.set_response_params(
                read_until_eof=True,
                auto_decompress=False,  # 10 MB of gzip can be 10 GB
                read_bufsize=READ_BYTES,
                max_field_size=LONGEST_HEADER_FIELD,
            )
        if self.guard is not route.guard:
            route.guard.check(route.url.host, [self.peer])
            self.guard = route.guard
        self.exchange = exchange
        exchange.connected(self.peer, is_reused=is_reused)

    def data_received(self, data: bytes) -> None:
        if self.exchange is not None and data:
            self.exchange.received(data)
            if self.exchange.is_flooded:
                cast("asyncio.Transport", self.transport).abort()
                return
        super().data_received(data)


class _Connector(aiohttp.TCPConnector):
    """aiohttp's dialling, with TLS and both address families; which connections are kept is decided above."""

    def __init__(self, resolver: Resolver) -> None:
        super().__init__(
            limit=0,  # the relay's slots are the limit; a queue here would count as connect time
            use_dns_cache=False,  # its cache is shared by requests with different guards
            resolver=_GuardedResolver(resolver),
            socket_factory=_open_socket,
            force_close=True,
        )
        self._factory = partial(_Protocol, loop=self._loop)  # type: ignore[assignment]  # a subclass is one


class _GuardedResolver(abc.AbstractResolver):
    """Gives aiohttp the addresses of a name once all of them have passed the guard of the running request."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - aiohttp's signature
    ) -> list[abc.ResolveResult]:
        addresses = await self._resolver.resolve(host)
        exchange = current_exchange.get()
        exchange.request.route.guard.check(host, addresses)
        exchange.phase = Phase.CONNECT
        return [_resolved(host, port, address) for address in addresses]

    async def close(self) -> None:
        pass


def _resolved(host: str, port: int, address: str) -> abc.ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return {
        "hostname": host,
        "host": address,
        "port": port,
        "family": family,
        "proto": socket.IPPROTO_TCP,
        "flags": socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    }


def _open_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Open the socket for one address just before it is dialled; addresses in URLs are seen only here."""
    exchange = current_exchange.get()
    exchange.request.route.guard.check(exchange.request.route.url.host, [str(address[4][0])])
    exchange.phase = Phase.CONNECT
    return socket.socket(address[0], address[1], address[2])


@lru_cache(maxsize=100)
def _limits(connect_seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, connect=connect_seconds)
