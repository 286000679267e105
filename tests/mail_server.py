"""A real SMTP server (aiosmtpd) on loopback that keeps every mail byte for byte and plays a fault at any step.

    with MailServer(RCPT=[reply("450 4.2.0 later"), None]) as server:     # the n-th RCPT plays the n-th fault
        ...
        [mail] = server.wait_for(1)

Steps: greeting, EHLO, STARTTLS, AUTH, MAIL, RCPT, DATA (before the content) and FINAL (after the final dot). A list is
played once in order, None meaning no fault; a function of the command's argument is asked each time.
"""

# ruff: noqa: N802 - aiosmtpd finds its hooks by these names

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field

from aiosmtpd.smtp import SMTP, AuthResult

from tests.loopback import LoopbackServer

ANSWERED = ""
"""What a step returns that a fault has answered already."""


@dataclass
class Mail:
    """One mail as it was accepted, or stored before a fault."""

    session: int
    return_path: str
    recipients: list[str]
    options: list[str]
    content: bytes


@dataclass
class Wire:
    """Everything a client sent in one session, TLS taken off."""

    received: bytearray = field(default_factory=bytearray)
    is_open: bool = True

    @property
    def lines(self) -> list[str]:
        return self.received.decode("utf-8", "replace").splitlines()


class MailServer(LoopbackServer):
    """Listens on loopback while in its `with` block. `users` are names and passwords; with them, login is wanted."""

    def __init__(
        self, *, tls=None, implicit_tls=False, smtputf8=False, users=None, size=None, port=0, injected="", **faults
    ):
        super().__init__(port)
        self.mails: list[Mail] = []
        self.wires: list[Wire] = []
        self.logins: list[str] = []
        self.tls = tls
        self.implicit_tls = implicit_tls
        self.smtputf8 = smtputf8
        self.users = users
        self.size = size
        self.injected = injected
        self._faults = faults
        self._sessions: set[_Session] = set()
        self._changed = threading.Condition()

    @property
    def sessions(self) -> int:
        """How many connections came."""
        return len(self.wires)

    def count(self, command: str) -> int:
        """How often a command came, over all sessions."""
        return sum(line.upper().startswith(command) for wire in self.wires for line in wire.lines)

    def wait_for(self, count: int, seconds: float = 20.0) -> list[Mail]:
        """Return the mails once `count` of them are stored."""
        return self.wait_until(lambda: len(self.mails) >= count and list(self.mails), f"{count} mails", seconds)

    def wait_until(self, condition, what: str, seconds: float = 20.0):
        """Return the first true value of `condition()`, asked whenever something came."""
        with self._changed:
            assert self._changed.wait_for(condition, seconds), f"not within {seconds:g} s: {what}"
            return condition()

    def end_sessions(self, last_words: bytes = b"") -> None:
        """Close all sessions from this side, as a server does with idle ones, and wait until that is done."""

        def end() -> None:
            for session in list(self._sessions):
                session.transport.write(last_words)
                session.transport.close()

        self._do(end)

    def fault(self, step: str, argument: str):
        """Return the fault to play now, or None."""
        planned = self._faults.get(step)
        if callable(planned):
            return planned(argument)
        return planned.pop(0) if planned else None

    def keep(self, mail: Mail) -> None:
        with self._changed:
            self.mails.append(mail)
            self._changed.notify_all()

    def noticed(self) -> None:
        with self._changed:
            self._changed.notify_all()

    async def _listen(self) -> asyncio.Server:
        return await self._loop.create_server(
            lambda: _Session(self), "127.0.0.1", self.port, ssl=self.tls if self.implicit_tls else None
        )

    def _end(self) -> None:
        for session in list(self._sessions):
            session.transport.abort()


class _Session(SMTP):
    """One session; plays the server's faults where a step begins."""

    def __init__(self, server: MailServer):
        self.mail_server = server
        self.wire = Wire()
        self._is_greeted = False
        super().__init__(
            _Content(),
            loop=asyncio.get_running_loop(),
            tls_context=None if server.implicit_tls else server.tls,
            enable_SMTPUTF8=server.smtputf8,
            hostname="mail.test",
            data_size_limit=server.size or 2**25,
            authenticator=self._authenticate_user,
            auth_require_tls=server.users is None or (server.tls is not None and not server.implicit_tls),
        )

    def connection_made(self, transport) -> None:
        if self not in self.mail_server._sessions:
            self.mail_server._sessions.add(self)
            self.mail_server.wires.append(self.wire)
        self.number = self.mail_server.wires.index(self.wire) + 1
        super().connection_made(transport)

    def connection_lost(self, error) -> None:
        self.mail_server._sessions.discard(self)
        self.wire.is_open = False
        super().connection_lost(error)
        self.mail_server.noticed()

    def data_received(self, data: bytes) -> None:
        self.wire.received += data
        super().data_received(data)
        self.mail_server.noticed()

    async def push(self, status) -> None:
        if not self._is_greeted:
            self._is_greeted = True
            if await self._is_played("greeting"):
                return
        if isinstance(status, str) and status.startswith("220 Ready"):
            status += self.mail_server.injected  # in plain text, in the same segment
        if status is not ANSWERED:
            await super().push(status)

    async def _is_played(self, step: str, argument: str = "") -> bool:
        fault = self.mail_server.fault(step, argument)
        if fault is not None:
            await fault(self)
        return fault is not None

    async def smtp_EHLO(self, argument) -> None:
        if not await self._is_played("EHLO", argument):
            await super().smtp_EHLO(argument)

    async def smtp_STARTTLS(self, argument) -> None:
        if not await self._is_played("STARTTLS"):
            await super().smtp_STARTTLS(argument)

    async def smtp_AUTH(self, argument) -> None:
        if not await self._is_played("AUTH", argument):
            await super().smtp_AUTH(argument)

    async def smtp_MAIL(self, argument) -> None:
        if await self._is_played("MAIL", argument):
            return
        if self.mail_server.users is not None and not self.session.authenticated:
            await self.push("530 5.7.0 Authentication required")
            return
        await super().smtp_MAIL(argument)

    async def smtp_RCPT(self, argument) -> None:
        if not await self._is_played("RCPT", argument):
            await super().smtp_RCPT(argument)

    async def smtp_DATA(self, argument) -> None:
        if not await self._is_played("DATA"):
            await super().smtp_DATA(argument)

    def _authenticate_user(self, _server, _session, _envelope, mechanism, data) -> AuthResult:
        self.mail_server.logins.append(mechanism)
        known = (self.mail_server.users or {}).get(data.login.decode())
        return AuthResult(success=known is not None and known == data.password.decode(), handled=False)


class _Content:
    """Takes complete contents: a fault that refuses keeps nothing, one that breaks off has stored it already."""

    async def handle_DATA(self, session, _peer, envelope) -> str:
        server = session.mail_server
        fault = server.fault("FINAL", "")
        if fault is None or getattr(fault, "stores", True):
            sender, to, options = envelope.mail_from, envelope.rcpt_tos, envelope.mail_options
            server.keep(Mail(session.number, sender, to, options, envelope.content))
        if fault is None:
            return f"250 2.0.0 Ok: queued as T{len(server.mails)}"
        await fault(session)
        return ANSWERED


def reply(*lines: str, close: bool = False, stores: bool = False):
    """Answer with these lines instead of going on."""

    async def play(session) -> None:
        session._writer.write("".join(f"{line}\r\n" for line in lines).encode())
        await session._writer.drain()
        if close:
            session.transport.close()

    play.stores = stores
    return play


def raw(data: bytes):
    """Answer with these bytes, whatever they are."""

    async def play(session) -> None:
        session._writer.write(data)

    return play


def drop(*, stores: bool = True):
    """Break the connection off without a word."""

    async def play(session) -> None:
        session.transport.abort()
        await asyncio.Event().wait()  # until the end of the connection cancels the session

    play.stores = stores
    return play


def hang():
    """Say nothing until the client goes."""

    async def play(_session) -> None:
        await asyncio.Event().wait()

    return play


def every(fault):
    """Play `fault` each time."""
    return lambda _argument: fault
