"""The mail server of the demo, on loopback, with a ledger of what it accepted."""

from __future__ import annotations

import email
import email.policy
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from aiosmtpd.controller import Controller
    from aiosmtpd.smtp import SMTP, Envelope, Session

__all__ = ["Letter", "Mailbox"]


@dataclass(frozen=True, slots=True)
class Letter:
    """One recipient's copy of an accepted mail."""

    event_id: str
    recipient: str


@dataclass  # without slots: aiosmtpd looks at all members, which objects with slots refuse in Python 3.11.2
class Mailbox:
    """A mail server that keeps what it accepts and sends nothing on."""

    letters: list[Letter] = field(default_factory=list)
    port: int = 0
    _controller: Controller | None = None

    def __enter__(self) -> Self:
        """Listen on a free port of loopback, in a thread of its own."""
        from aiosmtpd.controller import Controller

        self.port = _free_port()  # aiosmtpd connects to the port it was given, so that 0 will not do
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
        message_id = str(email.message_from_bytes(content, policy=email.policy.default)["message-id"])
        event_id = message_id.removeprefix("<").partition(".")[0]  # same-identity: <event.destination@domain>
        self.letters += [Letter(event_id, recipient) for recipient in envelope.rcpt_tos]
        return "250 2.0.0 accepted"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
