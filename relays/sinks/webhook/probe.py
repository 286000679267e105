"""A test of one destination, step by step: `outbox destinations test NAME`."""

from __future__ import annotations

import asyncio
import ssl
import time
import uuid
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from outbox.errors import InvalidSettings
from relays.deliveries import Delivery
from relays.details import clean_detail
from relays.http.addresses import AddressRefused
from relays.http.engine import Answer, Request
from relays.http.exchange import plain
from relays.http.resolver import Resolver
from relays.results import Delivered
from relays.sinks.reports import ProbeReport, ProbeStep
from relays.sinks.webhook.curl import curl_line
from relays.sinks.webhook.endpoint import resolve_endpoint
from relays.sinks.webhook.engines import open_engine
from relays.sinks.webhook.outcomes import result_of
from relays.sinks.webhook.request import request_of
from relays.sinks.webhook.settings import parse_settings

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from outbox.model import Destination
    from relays.http.engine import Engine, Failure
    from relays.sinks.webhook.endpoint import Endpoint

__all__ = ["Probe"]

TEST_EVENT_TYPE = "outbox.test"
SPARE_SECONDS = 0.5
"""An engine ends a request at its deadline itself, and says how far it came."""
TEST_PAYLOAD = b'{"message": "a test event, sent by: outbox destinations test"}'


class _Stopped(Exception):
    """A step failed, so the rest would only fail, too."""


class Probe:
    """Tests one destination: settings, name, guard, connection, TLS, consent if asked for, a signed test event.

    It stops at the first step that fails. No secret, header value, path or query gets into the report.
    """

    def __init__(self, destination: Destination, resolver: Resolver | None, seconds: float) -> None:
        self._destination = destination
        self._resolver = resolver or Resolver()
        self._seconds = seconds
        self._steps: list[ProbeStep] = []
        self._hidden: tuple[str, ...] = ()

    async def run(self, *, with_consent: bool) -> ProbeReport:
        """Go through the steps and report."""
        report = ProbeReport(self._destination.name)
        with suppress(_Stopped):
            endpoint = await self._step("settings", self._settings())
            self._hidden = endpoint.hidden
            report = replace(report, host=endpoint.url.authority)
            request = request_of(endpoint, self._test_delivery(), datetime.now(UTC).timestamp())
            address = await self._reach(endpoint)
            line, variables = curl_line(self._destination.settings, request, address, self._seconds)
            report = replace(report, curl=line, curl_variables=variables)
            await self._converse(endpoint, request, with_consent=with_consent)
        return replace(report, steps=tuple(self._steps))

    async def _step(self, name: str, work: Awaitable[tuple[str, Any]]) -> Any:
        """Await `work`, note what it says, and return what it found."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._seconds + SPARE_SECONDS):
                detail, found = await work
        except (OSError, AddressRefused, InvalidSettings, _Refused) as error:
            self._note(name, began, _said(error), is_ok=False)
            raise _Stopped from None
        self._note(name, began, detail, is_ok=True)
        return found

    def _note(self, name: str, began: float, detail: str, *, is_ok: bool) -> None:
        cleaned = clean_detail(detail, self._hidden)
        self._steps.append(ProbeStep(name, is_ok, time.monotonic() - began, cleaned))

    async def _settings(self) -> tuple[str, Endpoint]:
        endpoint = resolve_endpoint(parse_settings(self._destination.settings))
        signing = len(endpoint.keys_at(datetime.now(UTC).timestamp()))
        signed = f"signed with {signing} secret{'s' if signing > 1 else ''}" if signing else "not signed: set secret"
        proxy = endpoint.route.proxy
        through = "" if proxy is None else f", through the proxy {proxy.shown}, which looks the name up"
        return f"{endpoint.url.shown}, body {endpoint.body}, {signed}{through}", endpoint

    async def _reach(self, endpoint: Endpoint) -> str | None:
        """Go from the name to a connection; return the address, None when a proxy does all this."""
        if endpoint.route.proxy is not None:
            return None
        addresses = await self._step("resolve", self._resolve(endpoint))
        await self._step("guard", self._guard(endpoint, addresses))
        address, writer = await self._step("connect", self._connect(endpoint, addresses))
        try:
            if endpoint.url.scheme == "https":
                await self._step("tls", self._tls(endpoint, writer))
        finally:
            writer.transport.abort()
        return str(address)

    async def _resolve(self, endpoint: Endpoint) -> tuple[str, tuple[str, ...]]:
        addresses = await self._resolver.resolve(endpoint.url.host.strip("[]"))
        return ", ".join(addresses), addresses

    async def _guard(self, endpoint: Endpoint, addresses: tuple[str, ...]) -> tuple[str, None]:
        endpoint.route.guard.check(endpoint.url.host, addresses)
        return "public, or allowed by allow_networks", None

    async def _connect(
        self, endpoint: Endpoint, addresses: tuple[str, ...]
    ) -> tuple[str, tuple[str, asyncio.StreamWriter]]:
        """Dial the addresses in turn, as an engine does; say which ones did not answer."""
        failed = ""
        for address in addresses[:-1]:
            try:
                return await self._dial(endpoint, address, failed)
            except OSError as error:
                failed += f"; {address}: {plain(error)}"
        return await self._dial(endpoint, addresses[-1], failed)

    async def _dial(
        self, endpoint: Endpoint, address: str, failed: str
    ) -> tuple[str, tuple[str, asyncio.StreamWriter]]:
        async with asyncio.timeout(endpoint.route.connect_seconds):
            _, writer = await asyncio.open_connection(address, endpoint.url.port)
        return f"{address} port {endpoint.url.port}{failed}", (address, writer)

    async def _tls(self, endpoint: Endpoint, writer: asyncio.StreamWriter) -> tuple[str, None]:
        context = endpoint.route.tls or ssl.create_default_context()
        await writer.start_tls(context, server_hostname=endpoint.url.host.strip("[]").rstrip("."))
        tls = writer.get_extra_info("ssl_object")
        certificate = tls.getpeercert() or {}
        return f"{tls.version()}, {tls.cipher()[0]}, certificate valid until {certificate.get('notAfter')}", None

    async def _converse(self, endpoint: Endpoint, request: Request, *, with_consent: bool) -> None:
        engine = open_engine(endpoint.engine, self._resolver)
        try:
            if with_consent:
                await self._step("consent", self._ask_consent(engine, endpoint, request))
            await self._step("event", self._send(engine, endpoint, request))
        finally:
            await engine.close()

    async def _ask_consent(self, engine: Engine, endpoint: Endpoint, request: Request) -> tuple[str, None]:
        """Ask as CloudEvents' web hooks say; many receivers don't know the question."""
        headers = {"webhook-request-origin": endpoint.source}
        outcome = await engine.exchange(Request(request.route, headers, b"", "OPTIONS"), self._seconds)
        if not isinstance(outcome, Answer):
            raise _Refused(outcome.detail)
        allowed = outcome.headers.get("webhook-allowed-origin")
        if allowed not in {"*", endpoint.source}:
            raise _Refused(f"answered {outcome.status}, webhook-allowed-origin does not name {endpoint.source}")
        rate = outcome.headers.get("webhook-allowed-rate")
        return f"allowed{f', up to {rate} a minute' if rate else ''}", None

    async def _send(self, engine: Engine, endpoint: Endpoint, request: Request) -> tuple[str, None]:
        outcome = await engine.exchange(request, self._seconds)
        result = result_of(outcome, endpoint, tries=1)
        said = result.detail or "no body"
        if not isinstance(result, Delivered):
            raise _Refused(f"{result.reason}: {said} ({_timings(outcome)})")
        return f"answered {result.status}: {said} ({_timings(outcome)})", None

    def _test_delivery(self) -> Delivery:
        return Delivery(
            id=0,
            event_id=str(uuid.uuid4()),
            destination=self._destination,
            attempt=1,
            type=TEST_EVENT_TYPE,
            body=TEST_PAYLOAD,
            headers_json=b"{}",
            key=None,
            recorded_at=datetime.now(UTC),
            deadline_seconds=self._seconds,
        )


class _Refused(Exception):
    """The receiver was reached and did not take it."""


def _said(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate refused: {error.verify_message}"
    return plain(error) if isinstance(error, OSError) else str(error)


def _timings(outcome: Answer | Failure) -> str:
    times = outcome.timings
    parts = {"connected": times.connected, "first byte": times.first_byte, "total": times.total}
    return ", ".join(f"{name} {seconds * 1000:.0f} ms" for name, seconds in parts.items() if seconds is not None)
