"""How a session with a submission server begins, step by step: connection, greeting, encryption, login."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from relays.sinks.email.faults import troubles
from relays.sinks.email.replies import Fault, Phase, Trouble
from relays.sinks.email.settings import Security

if TYPE_CHECKING:
    import aiosmtplib

    from relays.sinks.email.budget import Budget
    from relays.sinks.email.server import Server

__all__ = ["Opening", "Step"]

_AUTH_METHODS = ("plain", "login", "cram-md5")

Step = tuple[str, Callable[[], Coroutine[Any, Any, str]]]
"""A step of opening a session: its name for people, and what to await; it returns what it found."""


class Opening:
    """The steps that bring `smtp` to where it takes messages."""

    def __init__(self, smtp: aiosmtplib.SMTP, server: Server) -> None:
        self._smtp = smtp
        self._server = server
        self._settings = server.settings

    def steps(self, budget: Budget) -> list[Step]:
        """Return the steps in their order; each raises `Trouble` when it cannot go on."""
        steps: list[Step] = [("connect", partial(self._connect, budget)), ("hello", partial(self._ehlo, budget))]
        if self._settings.security is Security.STARTTLS:
            steps += [("starttls", partial(self._start_tls, budget)), ("hello again", partial(self._ehlo, budget))]
        if self._settings.username is not None:
            name, password = self._settings.username, self._server.password or ""
            steps.append(("login", partial(self._log_in, name, password, budget)))
        return steps

    async def _connect(self, budget: Budget) -> str:
        with troubles(Phase.CONNECT):
            await self._smtp.connect(timeout=budget.seconds(self._settings.command_seconds))
        with troubles(Phase.GREETING):  # it may have closed right behind its greeting
            peer = self._smtp.get_transport_info("peername") or ("?",)
            return f"{peer[0]} port {self._settings.port}{self._encryption()}"

    async def _ehlo(self, budget: Budget) -> str:
        with troubles(Phase.EHLO):
            await self._smtp.ehlo(timeout=budget.seconds(self._settings.command_seconds))
        return f"offers {', '.join(sorted(self._smtp.esmtp_extensions)) or 'no extension'}"

    async def _start_tls(self, budget: Budget) -> str:
        if not self._smtp.supports_extension("starttls"):
            raise Trouble(Phase.STARTTLS, "the server does not offer STARTTLS", fault=Fault.NO_STARTTLS)
        with troubles(Phase.STARTTLS):
            await self._smtp.starttls(timeout=budget.seconds(self._settings.command_seconds))
            return f"encrypted{self._encryption()}"

    def _encryption(self) -> str:
        tls = self._smtp.get_transport_info("ssl_object")
        if tls is None:
            return ""
        return f", {tls.version()}, certificate valid until {(tls.getpeercert() or {}).get('notAfter')}"

    async def _log_in(self, username: str, password: str, budget: Budget) -> str:
        """Log in by one method: trying others with a wrong password looks like guessing, and locks accounts."""
        is_encrypted = self._settings.security is not Security.PLAIN
        methods = _AUTH_METHODS if is_encrypted else _AUTH_METHODS[::-1]  # cram-md5 keeps the password off the wire
        offered = self._smtp.server_auth_methods
        method = next((method for method in methods if method in offered), None)
        seconds = budget.seconds(self._settings.command_seconds)
        with troubles(Phase.AUTH):
            match method:
                case "plain":
                    await self._smtp.auth_plain(username, password, timeout=seconds)
                case "login":
                    await self._smtp.auth_login(username, password, timeout=seconds)
                case "cram-md5":
                    await self._smtp.auth_crammd5(username, password, timeout=seconds)
                case _:
                    offer = ", ".join(offered) or "none"
                    raise Trouble(Phase.AUTH, f"no login we know is offered ({offer})", fault=Fault.NO_AUTH)
        return f"as {username}, by {method}"
