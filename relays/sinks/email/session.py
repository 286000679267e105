"""One SMTP session, step by step: what goes wrong says in which step it did."""

from __future__ import annotations

import asyncio
import re
import socket
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import aiosmtplib

from relays.sinks.email.faults import reply_trouble, troubles
from relays.sinks.email.opening import Opening, Step
from relays.sinks.email.replies import Fault, Phase, Trouble
from relays.sinks.email.settings import OnAmbiguous, Security

if TYPE_CHECKING:
    from aiosmtplib import SMTPResponse

    from relays.sinks.email.budget import Budget
    from relays.sinks.email.envelope import Envelope
    from relays.sinks.email.server import Server

__all__ = ["Session"]

LAST_WAIT_SECONDS = 1.5
"""How long a cancelled attempt still waits for the answer to a whole message; the relay gives it 2 s."""

QUIT_SECONDS = 2.0
_COMPLETED = range(200, 300)
_START_INPUT = 354
_LEADING_DOT = re.compile(rb"(?m)^\.")


class Session:
    """A connection to a submission server, opened at its first message and kept for more.

    `is_clean` is true between messages only. A cancelled or timed-out step leaves it false: its late answer would be
    taken for that of the next command, so such a session is never used again.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._settings = server.settings
        self._smtp = aiosmtplib.SMTP(
            hostname=self._settings.host,
            port=self._settings.port,
            use_tls=self._settings.security is Security.TLS,
            start_tls=False,  # done step by step below; aiosmtplib's None would go on in plain text without a word
            tls_context=server.tls,
            local_hostname=self._settings.ehlo or _own_name(),
        )
        self._opening = Opening(self._smtp, server)
        self.messages = 0
        self.is_clean = False

    @property
    def is_usable(self) -> bool:
        """Whether another message can be sent, as far as is known without asking."""
        return self.is_clean and self._smtp.is_connected

    async def transmit(self, envelope: Envelope, budget: Budget) -> str:
        """Hand a message to the server and return what it answered.

        Raises:
            Trouble: it was not accepted, or that is not known.
        """
        if not self._smtp.is_connected:
            await self._open(budget)
        self.is_clean = False
        self.messages += 1
        try:
            answer = await self._transaction(envelope, budget)
        except Trouble as trouble:
            if not trouble.ends_session:
                await self._reset(budget)
            raise
        self.is_clean = True
        return answer

    async def quit(self) -> None:
        """End the session politely, within two seconds."""
        with suppress(aiosmtplib.SMTPException, OSError, ValueError):
            await self._smtp.quit(timeout=QUIT_SECONDS)
        self.close()

    def close(self) -> None:
        """Drop the connection."""
        self._smtp.close()

    async def _open(self, budget: Budget) -> None:
        steps = self._opening.steps(budget)
        try:
            for _, step in steps:
                await step()
        except BaseException:
            self.close()
            raise

    def trial_steps(self, budget: Budget) -> list[Step]:
        """Return the steps of a session that sends nothing; each says what it found, and raises `Trouble`."""
        sender = self._settings.return_path or self._settings.sender
        steps = self._opening.steps(budget)
        return steps if sender is None else [*steps, ("sender", partial(self._offer_sender, sender.address, budget))]

    async def _offer_sender(self, address: str, budget: Budget) -> str:
        await self._command(Phase.MAIL, b"MAIL", b"FROM:" + _path(address), budget=budget)
        await self._reset(budget)
        return f"{address} may send"

    # ------------------------------------------------------------------ one message

    async def _transaction(self, envelope: Envelope, budget: Budget) -> str:
        options = self._mail_options(envelope)
        await self._command(Phase.MAIL, b"MAIL", b"FROM:" + _path(envelope.return_path), *options, budget=budget)
        await self._recipients(envelope, budget)
        await self._command(Phase.DATA, b"DATA", budget=budget, expected=range(_START_INPUT, _START_INPUT + 1))
        return await self._content(envelope.content, budget)

    def _mail_options(self, envelope: Envelope) -> list[bytes]:
        options = []
        if self._smtp.supports_extension("size"):
            limit = self._smtp.esmtp_extensions["size"].strip()
            if limit.isdigit() and 0 < int(limit) < len(envelope.content):
                text = f"the message has {len(envelope.content)} bytes, the server takes at most {limit}"
                raise Trouble(Phase.MAIL, text, fault=Fault.TOO_LARGE)
            options.append(f"SIZE={len(envelope.content)}".encode())
        if envelope.needs_smtputf8:
            if not self._smtp.supports_extension("smtputf8"):
                text = "the server does not support non-ASCII mailbox names (SMTPUTF8)"
                raise Trouble(Phase.MAIL, text, fault=Fault.NO_SMTPUTF8)
            options += [b"BODY=8BITMIME", b"SMTPUTF8"]
        return options

    async def _recipients(self, envelope: Envelope, budget: Budget) -> None:
        """Name all recipients. One delivery has one outcome: if one of them is refused, nothing is sent to any."""
        refused: list[Trouble] = []
        for recipient in envelope.recipients:
            try:
                await self._command(Phase.RCPT, b"RCPT", b"TO:" + _path(recipient), budget=budget)
            except Trouble as trouble:
                if trouble.ends_session:
                    raise
                refused.append(trouble)
        if refused:
            raise _worst(refused, len(envelope.recipients))

    async def _command(self, phase: Phase, *words: bytes, budget: Budget, expected: range = _COMPLETED) -> str:
        with troubles(phase):
            reply = await self._smtp.execute_command(*words, timeout=budget.seconds(self._settings.command_seconds))
        if reply.code not in expected:
            raise reply_trouble(phase, reply.code, reply.message)
        return reply.message

    async def _content(self, content: bytes, budget: Budget) -> str:
        protocol = self._smtp.protocol
        if protocol is None:
            raise Trouble(Phase.DATA, "the server closed the session", fault=Fault.DISCONNECTED)
        seconds = budget.seconds(self._settings.final_dot_seconds)
        # The answer is awaited before the content is written: aiosmtplib drops what comes while nobody waits.
        answer = asyncio.get_running_loop().create_task(protocol.read_response(timeout=seconds))
        await asyncio.sleep(0)
        try:
            with troubles(Phase.DATA):
                protocol.write(_LEADING_DOT.sub(b"..", content) + b".\r\n")
            with troubles(Phase.FINAL):
                reply = await self._last_wait(answer)
        finally:
            answer.cancel()
        if reply.code not in _COMPLETED:
            raise reply_trouble(Phase.FINAL, reply.code, reply.message)
        return reply.message

    async def _last_wait(self, answer: asyncio.Task[SMTPResponse]) -> SMTPResponse:
        """Await the answer to a whole message, for a moment also when cancelled: without it the mail is sent twice.

        With `on_ambiguous = hold` a cancellation without an answer is an ambiguous end, not a mail given back to be
        sent again.
        """
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            await asyncio.wait({answer}, timeout=LAST_WAIT_SECONDS)
            if answer.done():
                return answer.result()
            if self._settings.on_ambiguous is OnAmbiguous.HOLD:
                text = "the relay stopped before the server answered"
                raise Trouble(Phase.FINAL, text, fault=Fault.TIMEOUT) from None
            raise

    async def _reset(self, budget: Budget) -> None:
        """Forget a half-told envelope, so that the session can carry the next message."""
        with suppress(Trouble):
            await self._command(Phase.MAIL, b"RSET", budget=budget)
            self.is_clean = True


def _own_name() -> str:
    """Return what to call ourselves: a name with a domain, else an address (RFC 5321 4.1.3), never a DNS search."""
    name = socket.gethostname()
    return name if "." in name and name.isascii() else "[127.0.0.1]"


def _path(address: str) -> bytes:
    return f"<{address}>".encode()


def _worst(refused: list[Trouble], count: int) -> Trouble:
    """Return one trouble for a message that some of its recipients refuse: a permanent one first."""
    worst = next((trouble for trouble in refused if trouble.is_permanent), refused[0])
    if count > 1:
        worst.text += f" (refused for {len(refused)} of {count} recipients, sent to none)"
    return worst
