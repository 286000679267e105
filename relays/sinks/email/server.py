"""A submission server ready to be connected to: settings with password and certificates looked up."""

from __future__ import annotations

import base64
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from outbox.errors import ReferenceMissing
from outbox.secrets import resolve_secret
from relays.sinks.email.settings import Security

if TYPE_CHECKING:
    from relays.sinks.email.settings import EmailSettings

__all__ = ["Server", "resolve_server"]


@dataclass(frozen=True, slots=True)
class Server:
    """Where and how to connect. `hidden` are the texts that are cut out of every detail."""

    settings: EmailSettings
    password: str | None = field(repr=False)
    tls: ssl.SSLContext | None
    hidden: tuple[str, ...] = field(repr=False)

    @property
    def name(self) -> str:
        """Host and port, for people."""
        return f"{self.settings.host}:{self.settings.port}"


def resolve_server(settings: EmailSettings) -> Server:
    """Look up what `settings` refer to on this machine; reads files.

    Raises:
        ReferenceMissing: a variable is not set, or a file cannot be read or used.
    """
    password = None if settings.password is None else resolve_secret(settings.password, "password")
    tls = None if settings.security is Security.PLAIN else _tls_context(settings.ca_file)
    return Server(settings, password, tls, tuple(_spellings(settings.username, password)))


def _tls_context(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ReferenceMissing(f"ca_file: {cause}") from None


def _spellings(username: str | None, password: str | None) -> list[str]:
    """Return how an answer could repeat the password, the longest first: as AUTH sends it, and as it is."""
    if username is None or password is None:
        return []
    plain = f"\0{username}\0{password}".encode()
    return [base64.b64encode(plain).decode(), base64.b64encode(password.encode()).decode(), password]
