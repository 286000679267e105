"""The outside world of the demo: webhook receivers and a mail server on loopback, each with a ledger of its own."""

from __future__ import annotations

import email
import email.policy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from aiohttp import web

from outbox.errors import InvalidSignature, UsageError
from outbox.webhooks import verify

if TYPE_CHECKING:
    from aiosmtpd.controller import Controller
    from aiosmtpd.smtp import SMTP, Envelope, Session

__all__ = ["Mailbox", "Receivers", "Request"]

HTTP_OK, HTTP_UNAUTHORIZED, HTTP_ERROR, HTTP_UNAVAILABLE = 200, 401, 500, 503
FAILURES_FIRST = 2


@dataclass(frozen=True, slots=True)
class Request:
    """What a receiver saw of one request, and what it answered."""

    event_id: str
    body: bytes
    is_signed: bool
    status: int


@dataclass(slots=True)
class Receivers:
    """Two webhook endpoints: `/warehouse` fails twice before it accepts, `/partner` always fails."""

    secret: str
    warehouse: list[Request] = field(default_factory=list)
    partner: list[Request] = field(default_factory=list)
    port: int = 0
    _runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        """Listen on a free port of loopback."""
        app = web.Application()
        app.router.add_post("/warehouse", self._warehouse)
        app.router.add_post("/partner", self._partner)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _warehouse(self, request: web.Request) -> web.Response:
        status = HTTP_UNAVAILABLE if len(self.warehouse) < FAILURES_FIRST else HTTP_OK
        return await self._receive(request, self.warehouse, status)

    async def _partner(self, request: web.Request) -> web.Response:
        return await self._receive(request, self.partner, HTTP_ERROR)

    async def _receive(self, request: web.Request, ledger: list[Request], status: int) -> web.Response:
        body = await request.read()
        try:
            event_id, is_signed = verify(request.headers, body, self.secret), True
        except InvalidSignature:
            event_id, is_signed, status = request.headers.get("webhook-id", ""), False, HTTP_UNAUTHORIZED
        ledger.append(Request(event_id, body, is_signed, status))
        return web.Response(status=status, text="out of paper" if status >= HTTP_ERROR else "thank you")


class Mailbox:
    """A mail server that keeps every message it accepts, as (recipient, subject, Message-ID)."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, str, str]] = []
        self.port = 0
        self._controller: Controller | None = None

    def __enter__(self) -> Self:
        """Listen on a free port of loopback, in a thread of its own."""
        try:
            from aiosmtpd.controller import Controller
        except ImportError:
            raise UsageError("the demo needs aiosmtpd; run pip install 'outbox-relay[demo]'") from None
        import socket

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._controller = Controller(self, hostname="127.0.0.1", port=self.port)
        self._controller.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        if self._controller is not None:
            self._controller.stop()

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd's
        """Accept a message."""
        content = envelope.content if isinstance(envelope.content, bytes) else b""
        message = email.message_from_bytes(content, policy=email.policy.default)
        for recipient in envelope.rcpt_tos:
            self.messages.append((recipient, str(message["subject"]), str(message["message-id"])))
        return "250 2.0.0 accepted"
