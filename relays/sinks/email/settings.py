"""An e-mail destination's settings, read strictly but not resolved: no file, variable or name is looked up."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from outbox.durations import parse_duration
from outbox.errors import InvalidEvent, InvalidSettings
from outbox.mailboxes import Mailbox, has_controls, parse_mailbox

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["EmailSettings", "OnAmbiguous", "Security", "parse_settings"]

MOST_CONNECTIONS = 100
MOST_MESSAGE_BYTES = 50 * 1024 * 1024
_HOST = re.compile(r"[A-Za-z0-9_.:-]{1,253}", re.ASCII)
_EHLO = re.compile(r"[A-Za-z0-9_.-]{1,253}|\[[0-9A-Za-z.:]{1,64}\]", re.ASCII)
_DOMAIN = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", re.ASCII)
_SETTINGS = frozenset((
    "host", "port", "security", "username", "password", "from", "return_path", "message_id_domain", "connections",
    "on_ambiguous", "ca_file", "ehlo", "command_timeout", "final_dot_timeout", "max_message_bytes",
))  # fmt: skip


class Security(StrEnum):
    """How the connection is protected. Nothing ever falls back to less."""

    STARTTLS = "starttls"
    TLS = "tls"
    PLAIN = "plain"


_PORTS = {Security.STARTTLS: 587, Security.TLS: 465, Security.PLAIN: 25}


class OnAmbiguous(StrEnum):
    """What follows when the answer to a whole message is lost: it may have been accepted."""

    RETRY = "retry"
    HOLD = "hold"


@dataclass(frozen=True, slots=True)
class EmailSettings:
    """The settings of one destination, checked. Durations are seconds; `password` may be a reference."""

    host: str
    port: int
    security: Security
    username: str | None
    password: str | None = field(repr=False)
    sender: Mailbox | None
    return_path: Mailbox | None
    message_id_domain: str | None
    connections: int
    on_ambiguous: OnAmbiguous
    ca_file: str | None
    ehlo: str | None
    command_seconds: float
    final_dot_seconds: float
    max_message_bytes: int


def parse_settings(settings: Mapping[str, Any]) -> EmailSettings:
    """Return the checked form of stored or typed settings.

    Raises:
        InvalidSettings: names the setting and the remedy, never a secret.
    """
    if unknown := sorted(settings.keys() - _SETTINGS):
        raise InvalidSettings(f"email has no setting {unknown[0]!r}; it knows {', '.join(sorted(_SETTINGS))}")
    security = _security(settings)
    username, password = _text(settings, "username"), _text(settings, "password")
    if (username is None) != (password is None):
        raise InvalidSettings("username and password: set both or neither; password takes env:NAME or file:PATH")
    return EmailSettings(
        host=_matching(settings, "host", _HOST, "is not a host name or address") or _missing_host(),
        port=_number(settings, "port", _PORTS[security], 1, 65535),
        security=security,
        username=username,
        password=password,
        sender=_mailbox(settings, "from"),
        return_path=_mailbox(settings, "return_path"),
        message_id_domain=_matching(settings, "message_id_domain", _DOMAIN, "is not a domain name in lower case"),
        connections=_number(settings, "connections", 4, 1, MOST_CONNECTIONS),
        on_ambiguous=_on_ambiguous(settings),
        ca_file=_text(settings, "ca_file"),
        ehlo=_matching(settings, "ehlo", _EHLO, "is not a host name or an address in brackets"),
        command_seconds=_seconds(settings, "command_timeout", "60s"),
        final_dot_seconds=_seconds(settings, "final_dot_timeout", "300s"),
        max_message_bytes=_number(settings, "max_message_bytes", 10 * 1024 * 1024, 1024, MOST_MESSAGE_BYTES),
    )


def _missing_host() -> str:
    raise InvalidSettings("host: is missing; give the submission server, like smtp.example.com")


def _security(settings: Mapping[str, Any]) -> Security:
    value = settings.get("security", Security.STARTTLS)
    if value not in tuple(Security):
        raise InvalidSettings(f"security: {value!r} is not known; write starttls, tls, or plain for no encryption")
    return Security(value)


def _on_ambiguous(settings: Mapping[str, Any]) -> OnAmbiguous:
    value = settings.get("on_ambiguous", OnAmbiguous.RETRY)
    if value not in tuple(OnAmbiguous):
        raise InvalidSettings(f"on_ambiguous: {value!r} is not known; write retry or hold")
    return OnAmbiguous(value)


def _text(settings: Mapping[str, Any], name: str) -> str | None:
    value = settings.get(name)
    if value is not None and (not isinstance(value, str) or not value or has_controls(value)):
        raise InvalidSettings(f"{name}: is not a text")
    return value


def _matching(settings: Mapping[str, Any], name: str, pattern: re.Pattern[str], fault: str) -> str | None:
    value = _text(settings, name)
    if value is not None and not pattern.fullmatch(value):
        raise InvalidSettings(f"{name}: {value[:100]!r} {fault}")
    return value


def _number(settings: Mapping[str, Any], name: str, default: int, low: int, high: int) -> int:
    value = settings.get(name, default)
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    if not isinstance(number, int) or isinstance(number, bool) or not low <= number <= high:
        raise InvalidSettings(f"{name}: {value!r} is not a whole number from {low} to {high}")
    return number


def _seconds(settings: Mapping[str, Any], name: str, default: str) -> float:
    seconds = parse_duration(settings.get(name, default), name)
    if seconds <= 0:
        raise InvalidSettings(f"{name}: is 0; give at least 1ms")
    return seconds


def _mailbox(settings: Mapping[str, Any], name: str) -> Mailbox | None:
    value = settings.get(name)
    if value is None:
        return None
    try:
        return parse_mailbox(value, name)
    except InvalidEvent as error:
        raise InvalidSettings(str(error)) from None
