"""The webhook endpoints of the demo, on loopback, with a ledger of every request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from aiohttp import web

from outbox.errors import InvalidSignature
from outbox.webhooks import verify

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["OK", "Endpoints", "Request"]

OK, UNAUTHORIZED, SERVER_ERROR, UNAVAILABLE = 200, 401, 500, 503
FAILURES_FIRST = 2
ANSWERS = {OK: "thank you", UNAUTHORIZED: "who are you?", SERVER_ERROR: "out of paper", UNAVAILABLE: "back in a moment"}


@dataclass(frozen=True, slots=True)
class Request:
    """What an endpoint saw of one request, and what it answered."""

    destination: str
    event_id: str
    body: bytes
    is_signed: bool
    status: int


@dataclass(slots=True)
class Endpoints:
    """Two endpoints: `/warehouse` fails twice before it accepts, `/partner` always fails, until it is repaired."""

    secret: str
    requests: list[Request] = field(default_factory=list)
    is_partner_repaired: bool = False
    port: int = 0
    _runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        """Listen on a free port of loopback."""
        app = web.Application()
        app.router.add_post("/warehouse", lambda request: self._receive("warehouse", request, self._warehouse))
        app.router.add_post("/partner", lambda request: self._receive("partner", request, self._partner))
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    def url(self, destination: str) -> str:
        """Return the address of an endpoint."""
        return f"http://127.0.0.1:{self.port}/{destination}"

    def _warehouse(self) -> int:
        seen = sum(request.destination == "warehouse" for request in self.requests)
        return UNAVAILABLE if seen < FAILURES_FIRST else OK

    def _partner(self) -> int:
        return OK if self.is_partner_repaired else SERVER_ERROR

    async def _receive(self, destination: str, request: web.Request, answer: Callable[[], int]) -> web.Response:
        """Verify a request, as every receiver should, and write down what came and what was answered."""
        body = await request.read()
        try:
            event_id, is_signed = verify(request.headers, body, self.secret), True
        except InvalidSignature:
            event_id, is_signed = request.headers.get("webhook-id", ""), False
        status = answer() if is_signed else UNAUTHORIZED
        self.requests.append(Request(destination, event_id, body, is_signed, status))
        return web.Response(status=status, text=ANSWERS[status])
