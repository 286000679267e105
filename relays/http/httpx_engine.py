"""The second engine, on httpcore2, the transport of httpx2: for HTTP/2 and proxies, at a fraction of the rate.

`httpx2.AsyncClient` itself is not used: it logs whole URLs and shares cookies between receivers.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

import httpcore2

from relays.http.engine import BODY_SECONDS, WIRE_BYTES, Phase, header_lines
from relays.http.exchange import Exchange, current_exchange, plain
from relays.http.resolver import Resolver

if TYPE_CHECKING:
    from collections.abc import Iterable

    from relays.http.engine import Answer, Failure, Request, Route
    from relays.http.url import Url

__all__ = ["HttpxEngine"]

MOST_POOLS = 500
MOST_IDLE_PER_POOL = 50
IDLE_SECONDS = 15.0


class HttpxEngine:
    """One pool per receiver, because httpcore2 walks a whole pool at every request; `resolver` is what is dialled."""

    def __init__(self, resolver: Resolver | None = None) -> None:
        self._backend = _GuardedBackend(resolver or Resolver())
        self._pools: OrderedDict[_PoolKey, _Pool] = OrderedDict()
        # Two contexts, since httpcore2 writes the protocols it offers into the one it is given.
        self._system_tls = {http2: ssl.create_default_context() for http2 in (False, True)}

    async def exchange(self, request: Request, seconds: float) -> Answer | Failure:
        """Send `request` and return what came of it within `seconds` in all; raises only when cancelled."""
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
        while self._pools:
            await self._pools.popitem()[1].connections.aclose()

    async def _send(self, request: Request, exchange: Exchange) -> Answer | Failure:
        _check_literal(request.route)
        if request.is_fresh:
            async with self._open_pool(request.route) as connections:
                return await _converse(connections, request, exchange)
        pool = self._pool(request.route)
        pool.in_flight += 1
        try:
            await self._close_unused()
            return await _converse(pool.connections, request, exchange)
        finally:
            pool.in_flight -= 1
            pool.used_at = time.monotonic()

    def _pool(self, route: Route) -> _Pool:
        key = _PoolKey(route.url.scheme, route.url.host, route.url.port, route.tls, route.http2, route.proxy)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = _Pool(self._open_pool(route))
        self._pools.move_to_end(key)
        return pool

    def _open_pool(self, route: Route) -> httpcore2.AsyncConnectionPool:
        return httpcore2.AsyncConnectionPool(
            ssl_context=route.tls or self._system_tls[route.http2],
            proxy=None if route.proxy is None else httpcore2.Proxy(_core_url(route.proxy)),
            http2=route.http2,
            max_connections=None,  # the relay's slots are the limit; a queue here would count as connect time
            max_keepalive_connections=MOST_IDLE_PER_POOL,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=self._backend,
        )

    async def _close_unused(self) -> None:
        """Close the least recently used pool once it is too old: httpcore2 drops connections only of pools in use."""
        key, pool = next(iter(self._pools.items()))
        is_old = pool.used_at < time.monotonic() - IDLE_SECONDS or len(self._pools) > MOST_POOLS
        if is_old and pool.in_flight == 0:
            del self._pools[key]
            await pool.connections.aclose()


class _PoolKey(NamedTuple):
    scheme: str
    host: str
    port: int
    tls: ssl.SSLContext | None
    http2: bool
    proxy: Url | None


class _Pool:
    def __init__(self, connections: httpcore2.AsyncConnectionPool) -> None:
        self.connections = connections
        self.in_flight = 0
        self.used_at = time.monotonic()


def _check_literal(route: Route) -> None:
    """Refuse an address in the URL here, where a proxy dials it: names it looks up itself, and must refuse."""
    if route.proxy is not None and route.url.is_literal:
        route.guard.check(route.url.host, [route.url.host.strip("[]")])


async def _converse(
    connections: httpcore2.AsyncConnectionPool, request: Request, exchange: Exchange
) -> Answer | Failure:
    response = await connections.handle_async_request(_core_request(request))
    try:
        if not exchange.has_answered and response.extensions["http_version"] != b"HTTP/2":
            # h11 had it in its buffer: a stray answer to an earlier request must not count as this one's.
            raise ConnectionError("the connection held an answer nobody asked for")
        exchange.answered(response.status, _headers(response.headers))
        if isinstance(stream := response.extensions["network_stream"], _Stream):
            stream.unanswered = 0
        return exchange.answer(is_complete=await _read(response, exchange))
    finally:
        await response.aclose()


async def _read(response: httpcore2.Response, exchange: Exchange) -> bool:
    """Keep what may be kept of the body; return whether its end was reached."""
    async with asyncio.timeout(BODY_SECONDS):
        async for chunk in response.aiter_stream():
            if not exchange.keep(chunk):
                return False
    return True


def _core_request(request: Request) -> httpcore2.Request:
    route = request.route
    length = {"content-length": str(len(request.body))}
    headers = {"host": route.url.authority, **route.headers, **request.headers, **length}
    header_lines(headers)  # only to refuse what h11 would repeat in its error
    return httpcore2.Request(
        method=request.method,
        url=_core_url(route.url),
        headers=[(name.encode(), value.encode()) for name, value in headers.items()],
        content=request.body,
        extensions={"timeout": {"connect": route.connect_seconds}},
    )


def _core_url(url: Url) -> httpcore2.URL:
    return httpcore2.URL(
        scheme=url.scheme.encode(), host=url.host.strip("[]").encode(), port=url.port, target=url.target.encode()
    )


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("ascii", "replace").lower(): value.decode("latin-1") for name, value in pairs}


def _outcome(exchange: Exchange, error: Exception) -> Answer | Failure:
    is_unreadable = isinstance(error, httpcore2.RemoteProtocolError) and "disconnected" not in str(error)
    # HTTP/2 calls it local, too, when what came breaks its rules; headers of ours were checked before.
    if is_unreadable or (isinstance(error, httpcore2.LocalProtocolError) and exchange.phase is Phase.ANSWER):
        return exchange.unreadable(f"the answer is no HTTP: {plain(error)}")
    return exchange.broke(_cause(error))


def _cause(error: Exception) -> Exception:
    """Return the system's own error in one of httpcore2's and anyio's, which wrap it several times."""
    wrapped: BaseException | None = error
    while wrapped is not None:
        if isinstance(wrapped, ssl.SSLError):
            return wrapped
        found = wrapped
        wrapped = wrapped.__cause__ or next((part for part in wrapped.args if isinstance(part, BaseException)), None)
    match error:
        case httpcore2.TimeoutException():
            return TimeoutError()
        case httpcore2.LocalProtocolError():
            return ValueError()
        case httpcore2.ProxyError():
            return ConnectionError(f"the proxy answered {plain(error)}")
        case httpcore2.NetworkError() | httpcore2.ProtocolError():
            return ConnectionError(plain(found))
        case _:
            return error


class _GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Dials the addresses of a name once all of them have passed the guard of the running request."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._dialler = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore2's signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        exchange = current_exchange.get()
        async with asyncio.timeout(timeout):
            addresses = await self._resolver.resolve(host)
            if exchange.request.route.proxy is None:
                exchange.request.route.guard.check(host, addresses)
            exchange.phase = Phase.CONNECT
            stream = await self._dial(addresses, port, local_address, socket_options)
            return _Stream(stream, _layers_before_receiver(exchange.request.route))

    async def _dial(self, addresses: tuple[str, ...], port: int, *rest: Any) -> httpcore2.AsyncNetworkStream:
        for address in addresses[:-1]:
            try:
                return await self._dialler.connect_tcp(address, port, None, *rest)
            except httpcore2.ConnectError:
                continue
        return await self._dialler.connect_tcp(addresses[-1], port, None, *rest)


def _layers_before_receiver(route: Route) -> int:
    """Return how many TLS sessions must begin before it is the receiver that answers: a tunnel is asked for first."""
    if route.proxy is None or route.url.scheme != "https":
        return 0
    return 2 if route.proxy.scheme == "https" else 1


class _Stream(httpcore2.AsyncNetworkStream):
    """A connection that tells the exchange using it when the request goes out and the first byte comes.

    While `layers` of TLS are still to come, it talks to a proxy: whose "200" is no answer to the request.
    """

    def __init__(self, stream: httpcore2.AsyncNetworkStream, layers: int) -> None:
        self._stream = stream
        self._layers = layers
        self.unanswered = 0

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - their signature
        exchange = current_exchange.get()
        if self._layers:
            return await self._stream.read(max_bytes, exchange.request.route.connect_seconds)
        data = await self._stream.read(max_bytes, timeout)
        if data:
            exchange.received(data)
        self.unanswered += len(data)
        if self._is_flooded(exchange):
            raise httpcore2.RemoteProtocolError("it has no end")
        return data

    def _is_flooded(self, exchange: Exchange) -> bool:
        if exchange.request.route.http2:  # answers to others come here, too, while this exchange waits
            return self.unanswered > WIRE_BYTES
        return exchange.is_flooded

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - their signature
        exchange = current_exchange.get()
        if not self._layers and exchange.phase in {Phase.RESOLVE, Phase.CONNECT}:
            self._welcome(exchange)
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore2's signature
    ) -> httpcore2.AsyncNetworkStream:
        stream = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        return _Stream(stream, max(self._layers - 1, 0))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def _welcome(self, exchange: Exchange) -> None:
        """Put a connection to use once its peer is checked: it may have been opened for another destination."""
        peer = str(self.get_extra_info("server_addr")[0])
        if exchange.request.route.proxy is None:
            exchange.request.route.guard.check(exchange.request.route.url.host, [peer])
        exchange.connected(peer, is_reused=exchange.phase is Phase.RESOLVE)
