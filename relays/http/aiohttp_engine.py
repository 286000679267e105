"""The default engine, on aiohttp: 5 to 10 times the rate of the others here."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import OrderedDict
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import abc
from aiohttp.client_proto import ResponseHandler
from multidict import CIMultiDict
from yarl import URL

from relays.http.engine import BODY_SECONDS, READ_BYTES, Phase
from relays.http.exchange import Exchange, current_exchange, plain
from relays.http.resolver import Resolver

if TYPE_CHECKING:
    from aiohttp.client_reqrep import ClientRequest, ConnectionKey
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

    from relays.http.engine import Answer, Failure, Request
    from relays.http.url import Url

__all__ = ["AiohttpEngine"]

MOST_IDLE_CONNECTIONS = 500
IDLE_SECONDS = 15.0
MOST_HEADER_FIELDS = 256
LONGEST_HEADER_FIELD = 32 * 1024


class AiohttpEngine:
    """One aiohttp session for all destinations; `resolver` is what the guard sees and what is dialled."""

    def __init__(self, resolver: Resolver | None = None) -> None:
        self._resolver = resolver or Resolver()
        self._session = aiohttp.ClientSession(
            connector=_Connector(self._resolver),
            cookie_jar=aiohttp.DummyCookieJar(),  # a shared jar would carry one tenant's cookies to another
            trust_env=False,
            auto_decompress=False,  # 10 MB of gzip can be 10 GB
            read_bufsize=READ_BYTES,
            max_headers=MOST_HEADER_FIELDS,
            max_field_size=LONGEST_HEADER_FIELD,
        )

    async def exchange(self, request: Request, seconds: float) -> Answer | Failure:
        """Send `request` and return what came of it within `seconds` in all."""
        exchange = Exchange(request)
        token = current_exchange.set(exchange)
        deadline = asyncio.timeout(seconds)
        try:
            async with deadline:
                return await self._send(request, exchange)
        except Exception as error:  # noqa: BLE001 - an attempt always has an outcome
            return exchange.timed_out(seconds) if deadline.expired() else _outcome(exchange, error)
        finally:
            current_exchange.reset(token)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()
        self._resolver.close()

    async def _send(self, request: Request, exchange: Exchange) -> Answer | Failure:
        async with self._session.request(
            request.method,
            _yarl(request.url),
            data=request.body,
            headers=CIMultiDict(request.headers),
            allow_redirects=False,
            ssl=request.tls or True,
            timeout=_limits(request.connect_seconds),
        ) as response:
            exchange.answered(response.status, response.headers)
            is_complete = await _read(response.content, exchange)
            if not is_complete:
                response.close()
            return exchange.answer(is_complete=is_complete)


async def _read(content: aiohttp.StreamReader, exchange: Exchange) -> bool:
    """Keep what may be kept of the body; return whether its end was reached."""
    if content.at_eof():
        return True
    async with asyncio.timeout(BODY_SECONDS):
        while chunk := await content.readany():
            if not exchange.keep(chunk):
                return False
    return True


def _outcome(exchange: Exchange, error: Exception) -> Answer | Failure:
    if isinstance(error, aiohttp.ClientResponseError):
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
    """aiohttp's connection, which also tells the exchange when the first byte comes."""

    exchange: Exchange | None = None
    peer: str | None = None
    was_used = False

    def data_received(self, data: bytes) -> None:
        if self.exchange is not None and data:
            self.exchange.received(data)
        super().data_received(data)


class _Connector(aiohttp.TCPConnector):
    """aiohttp's pool with a bound on idle connections, which checks who each connection really goes to."""

    def __init__(self, resolver: Resolver) -> None:
        super().__init__(
            limit=0,  # the relay's slots are the limit; a queue here would count as connect time
            use_dns_cache=False,  # its cache is shared by requests with different guards
            resolver=_GuardedResolver(resolver),
            socket_factory=_open_socket,
            keepalive_timeout=IDLE_SECONDS,
        )
        self._factory = partial(_Protocol, loop=self._loop)  # type: ignore[assignment]  # a subclass is one
        self._idle: OrderedDict[ResponseHandler, None] = OrderedDict()

    async def connect(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's signature
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        protocol = connection.protocol
        assert isinstance(protocol, _Protocol)  # noqa: S101 - our own factory made it
        self._idle.pop(protocol, None)
        exchange = current_exchange.get()
        try:
            _welcome(protocol, exchange)
        except BaseException:
            connection.close()
            raise
        return connection

    async def _get(self, key: ConnectionKey, traces: list[Trace]) -> Connection | None:
        if current_exchange.get().request.is_fresh:  # the pool may hold more connections that died with the last one
            return None
        return await super()._get(key, traces)

    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        super()._release(key, protocol, should_close=should_close)
        if isinstance(protocol, _Protocol):
            protocol.exchange = None
        if protocol.is_connected():
            self._idle[protocol] = None
            if len(self._idle) > MOST_IDLE_CONNECTIONS:  # 10,000 destinations would keep 10,000 sockets
                self._idle.popitem(last=False)[0].close()


def _welcome(protocol: _Protocol, exchange: Exchange) -> None:
    """Put a connection to use once its peer is checked: it may have been opened for another destination."""
    if protocol.peer is None and protocol.transport is not None:
        protocol.peer = str(protocol.transport.get_extra_info("peername")[0])
    exchange.request.guard.check(exchange.request.url.host, [protocol.peer or ""])
    exchange.connected(protocol.peer, is_reused=protocol.was_used)
    protocol.exchange = exchange
    protocol.was_used = True


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
        exchange.request.guard.check(host, addresses)
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
    exchange.request.guard.check(exchange.request.url.host, [str(address[4][0])])
    exchange.phase = Phase.CONNECT
    return socket.socket(address[0], address[1], address[2])


@lru_cache(maxsize=20_000)
def _yarl(url: Url) -> URL:
    return URL(str(url), encoded=True)


@lru_cache(maxsize=100)
def _limits(connect_seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, connect=connect_seconds)
