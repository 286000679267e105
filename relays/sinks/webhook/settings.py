"""A webhook destination's settings, read strictly but not resolved: no file, variable or name is looked up."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from outbox.durations import parse_duration
from outbox.errors import InvalidSettings
from outbox.headers import header_fault
from outbox.secrets import is_reference
from outbox.webhook_keys import parse_signing_key
from relays.http.addresses import Guard, parse_networks
from relays.http.url import Url, parse_url
from relays.sinks.webhook.bodies import BodyFormat
from relays.sinks.webhook.values import choice, listed, switch, text

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DEAD_ON", "ENGINES", "Secret", "TlsFiles", "WebhookSettings", "check_header", "parse_settings"]

DEAD_ON = frozenset((413, 414, 415, 431))
"""The same bytes can never succeed."""

ENGINES = ("aiohttp", "httpx")
_STATUSES = range(300, 600)
_MOST_HEADERS = 20
_SETTINGS = frozenset(
    (
        "url",
        "secret",
        "previous_secrets",
        "body",
        "source",
        "headers",
        "forward_headers",
        "allow_http",
        "allow_networks",
        "dead_on",
        "ca_file",
        "client_certificate",
        "client_key",
        "engine",
        "http2",
        "proxy",
        "connect_timeout",
    )
)


@dataclass(frozen=True, slots=True)
class Secret:
    """A signing secret or a reference to one; after `until` it no longer signs."""

    reference: str = field(repr=False)
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files on the relay's machine: its own certificate authority, and a client certificate with its key."""

    ca_file: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """The settings of one destination, checked. `forward_headers` None: all headers of the event are sent."""

    url: Url
    secrets: tuple[Secret, ...]
    body: BodyFormat
    source: str
    headers: Mapping[str, str] = field(repr=False)
    forward_headers: frozenset[str] | None
    guard: Guard
    dead_on: frozenset[int]
    tls: TlsFiles
    engine: str
    http2: bool
    proxy: Url | None
    connect_seconds: float


def parse_settings(settings: Mapping[str, Any]) -> WebhookSettings:
    """Return the checked form of stored or typed settings.

    Raises:
        InvalidSettings: names the setting and the remedy, never a secret.
    """
    if unknown := sorted(settings.keys() - _SETTINGS):
        raise InvalidSettings(f"webhook has no setting {unknown[0]!r}; it knows {', '.join(sorted(_SETTINGS))}")
    url = parse_url(settings.get("url"), "url")
    is_http_allowed = switch(settings, "allow_http")
    if url.scheme == "http" and not is_http_allowed:
        raise InvalidSettings("url: is http, so everybody on the way could read it; use https or set allow_http = true")
    engine = choice(settings, "engine", ENGINES, "aiohttp")
    _refuse_foreign(settings, engine)
    return WebhookSettings(
        url=url,
        secrets=_secrets(settings),
        body=choice(settings, "body", tuple(BodyFormat), BodyFormat.STANDARD),
        source=_source(settings),
        headers=_headers(settings),
        forward_headers=_forwarded(settings),
        guard=Guard(parse_networks(listed(settings, "allow_networks"), "allow_networks")),
        dead_on=_dead_on(settings),
        tls=_tls(settings),
        engine=engine,
        http2=switch(settings, "http2"),
        proxy=parse_url(settings["proxy"], "proxy") if "proxy" in settings else None,
        connect_seconds=_connect_seconds(settings),
    )


def _refuse_foreign(settings: Mapping[str, Any], engine: str) -> None:
    for name in ("http2", "proxy"):
        if engine != "httpx" and settings.get(name):
            raise InvalidSettings(f"{name}: needs engine = httpx (extra outbox-relay[httpx])")


def check_header(header: str, value: str) -> None:
    """Check one header of a destination; a value by reference is checked when it is looked up.

    Raises:
        InvalidSettings: it cannot be sent, or the relay sets it itself; names the header, never its value.
    """
    fault = header_fault(header, "" if is_reference(value) else value)
    if fault is not None:
        raise InvalidSettings(f"headers: {header[:100]!r} {fault}")


def _source(settings: Mapping[str, Any]) -> str:
    source = text(settings, "source") or "outbox"
    if not source.isascii() or not source.isprintable() or " " in source:
        raise InvalidSettings(f"source: {source!r} is not a URI reference like https://shop.example or /shop")
    return source


def _secrets(settings: Mapping[str, Any]) -> tuple[Secret, ...]:
    current = settings.get("secret")
    given = [current] if isinstance(current, str) else current
    if given is not None and (not isinstance(given, list) or not given):
        raise InvalidSettings("secret: is neither a text nor a list of texts; write env:NAME, file:PATH or whsec_…")
    secrets = [Secret(_secret(value, f"secret[{n}]")) for n, value in enumerate(given or ())]
    previous = settings.get("previous_secrets", [])
    if not isinstance(previous, list):
        raise InvalidSettings("previous_secrets: is not a list; rotate-secret writes it")
    return (*secrets, *(_previous(value, f"previous_secrets[{n}]") for n, value in enumerate(previous)))


def _secret(value: object, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidSettings(f"{name}: is not a text; write env:NAME, file:PATH or whsec_…")
    if not is_reference(value):
        parse_signing_key(value, name)
    return value


def _previous(value: object, name: str) -> Secret:
    match value:
        case {"secret": secret, "until": str(until)}:
            try:
                moment = datetime.fromisoformat(until)
            except ValueError:
                raise InvalidSettings(f"{name}.until: {until!r} is not a time with an offset") from None
            return Secret(_secret(secret, f"{name}.secret"), moment.replace(tzinfo=moment.tzinfo or UTC))
        case _:
            raise InvalidSettings(f'{name}: is not {{"secret": …, "until": …}}; rotate-secret writes it')


def _headers(settings: Mapping[str, Any]) -> dict[str, str]:
    headers = settings.get("headers", {})
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise InvalidSettings('headers: is not an object of texts; write {"authorization": "env:TOKEN"}')
    for header, value in headers.items():
        check_header(header, value)
    lowered = {header.lower(): value for header, value in headers.items()}
    if len(lowered) < len(headers) or len(headers) > _MOST_HEADERS:
        raise InvalidSettings(f"headers: one is given twice, or more than {_MOST_HEADERS}")
    return lowered


def _forwarded(settings: Mapping[str, Any]) -> frozenset[str] | None:
    if "forward_headers" not in settings:
        return None
    return frozenset(str(name).lower() for name in listed(settings, "forward_headers"))


def _dead_on(settings: Mapping[str, Any]) -> frozenset[int]:
    if "dead_on" not in settings:
        return DEAD_ON
    statuses: set[int] = set()
    for value in listed(settings, "dead_on"):
        pattern = str(value)
        found = {status for status in _STATUSES if pattern in {str(status), f"{status // 100}xx"}}
        if not found:
            raise InvalidSettings(f"dead_on: {value!r} is not a status from 300 to 599, or 3xx, 4xx, 5xx")
        statuses |= found
    return frozenset(statuses)


def _tls(settings: Mapping[str, Any]) -> TlsFiles:
    files = TlsFiles(
        ca_file=text(settings, "ca_file"),
        client_certificate=text(settings, "client_certificate"),
        client_key=text(settings, "client_key"),
    )
    if files.client_key is not None and files.client_certificate is None:
        raise InvalidSettings("client_key: belongs to a client_certificate; set that, too")
    return files


def _connect_seconds(settings: Mapping[str, Any]) -> float:
    seconds = parse_duration(settings.get("connect_timeout", "5s"), "connect_timeout")
    if seconds <= 0:
        raise InvalidSettings("connect_timeout: is 0; give at least 1ms")
    return seconds
