"""The HTTP endpoint of a relay: `/metrics`, `/livez`, `/readyz`."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web

from outbox.errors import InvalidSettings
from relays.exposition import CONTENT_TYPE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from relays.backlog import Backlog
    from relays.metrics import Gauges, Metrics

__all__ = ["endpoint", "parse_address"]

STUCK_SECONDS = 300.0
"""A relay whose cycle has not come round for so long will not by itself: let it be restarted."""


def parse_address(address: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`; `:PORT` is all interfaces, `[::1]:PORT` an IPv6 one.

    Raises:
        InvalidSettings: it is not an address.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:  # noqa: PLR2004 - the highest port
        raise InvalidSettings(f"--metrics {address!r} is not an address; write 127.0.0.1:9464 or :9464")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - asked for by leaving the host out


@asynccontextmanager
async def endpoint(address: str, relay: Gauges, metrics: Metrics, backlog: Backlog) -> AsyncIterator[str]:
    """Serve at `address` (HOST:PORT, port 0 takes any free one) for the length of the block; yield host:port.

    Raises:
        InvalidSettings: it is not an address, or the port is taken.
    """
    host, port = parse_address(address)
    runner = web.AppRunner(_application(relay, metrics, backlog), access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, shutdown_timeout=1.0)
        try:
            await site.start()
        except OSError as error:
            raise InvalidSettings(f"--metrics {address}: cannot listen there: {error.strerror}") from None
        bound_host, bound_port = runner.addresses[0][:2]
        yield f"[{bound_host}]:{bound_port}" if ":" in bound_host else f"{bound_host}:{bound_port}"
    finally:
        await runner.cleanup()


def _application(relay: Gauges, metrics: Metrics, backlog: Backlog) -> web.Application:
    async def show_metrics(_: web.Request) -> web.Response:
        page = metrics.page(relay, await backlog.read(relay.targets))
        return web.Response(body=page.encode(), headers={"content-type": CONTENT_TYPE})

    async def say_alive(_: web.Request) -> web.Response:
        seconds = relay.silent_seconds
        if seconds > STUCK_SECONDS:
            return web.Response(status=503, text=f"stuck: the cycle has not come round for {seconds:.0f} s\n")
        return web.Response(text="alive\n")

    async def say_ready(_: web.Request) -> web.Response:
        reason = relay.not_ready_because
        return web.Response(text="ready\n") if reason is None else web.Response(status=503, text=f"{reason}\n")

    application = web.Application()
    application.router.add_get("/metrics", show_metrics)
    application.router.add_get("/livez", say_alive)
    application.router.add_get("/readyz", say_ready)
    return application
