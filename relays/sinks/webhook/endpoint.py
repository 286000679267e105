"""A destination ready to be sent to: its settings with secrets, header values and certificates looked up."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING
from urllib.parse import unquote

from outbox.errors import InvalidSettings, ReferenceMissing
from outbox.secrets import resolve_secret
from outbox.webhook_keys import parse_signing_key
from relays.http.engine import Route
from relays.sinks.webhook.bodies import content_type
from relays.sinks.webhook.settings import TlsFiles, check_header

if TYPE_CHECKING:
    from collections.abc import Mapping

    from outbox.webhook_keys import SigningKey
    from relays.http.url import Url
    from relays.sinks.webhook.bodies import BodyFormat
    from relays.sinks.webhook.settings import Secret, WebhookSettings

__all__ = ["Endpoint", "resolve_endpoint"]

_LIKE_A_TOKEN = re.compile(r"(?=.*[0-9]).{6,}|.{20,}")


_FIXED = {
    "user-agent": f"outbox-relay/{version('outbox-relay')}",
    "accept": "*/*",
    "accept-encoding": "identity",  # nothing to unpack: 10 MB of gzip can be 10 GB
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One destination's settings, resolved. `hidden` are the texts that are cut out of every detail."""

    route: Route
    keys: tuple[tuple[SigningKey, float | None], ...] = field(repr=False)
    body: BodyFormat
    source: str
    forward_headers: frozenset[str] | None
    dead_on: frozenset[int]
    engine: str
    hidden: tuple[str, ...] = field(repr=False)

    @property
    def url(self) -> Url:
        """Where it sends to."""
        return self.route.url

    def keys_at(self, now: float) -> list[SigningKey]:
        """Return the keys that sign at `now` (Unix seconds): current ones, and rotated ones within their grace."""
        return [key for key, until in self.keys if until is None or now < until]


def resolve_endpoint(settings: WebhookSettings) -> Endpoint:
    """Look up what `settings` refer to on this machine; reads files.

    Raises:
        ReferenceMissing: a variable is not set, a file cannot be read, or a key in it cannot be used.
        InvalidSettings: a header value cannot be sent.
    """
    secrets = [resolve_secret(secret.reference, "secret") for secret in settings.secrets]
    headers = {header: _header_value(header, value) for header, value in settings.headers.items()}
    return Endpoint(
        route=_route(settings, headers),
        keys=tuple((_key(text), _end(secret)) for text, secret in zip(secrets, settings.secrets, strict=True)),
        body=settings.body,
        source=settings.source,
        forward_headers=settings.forward_headers,
        dead_on=settings.dead_on,
        engine=settings.engine,
        hidden=tuple(sorted(set(_hidden(settings.url, secrets, headers)), key=len, reverse=True)),
    )


def _end(secret: Secret) -> float | None:
    return None if secret.until is None else secret.until.timestamp()


def _route(settings: WebhookSettings, headers: Mapping[str, str]) -> Route:
    return Route(
        url=settings.url,
        headers={**_FIXED, **headers, "content-type": content_type(settings.body)},
        guard=settings.guard,
        tls=None if settings.tls == TlsFiles() else _tls_context(settings.tls, http2=settings.http2),
        connect_seconds=settings.connect_seconds,
        http2=settings.http2,
        proxy=settings.proxy,
    )


def _header_value(header: str, reference: str) -> str:
    value = resolve_secret(reference, f"headers.{header}")
    check_header(header, value)
    return value


def _key(secret: str) -> SigningKey:
    try:
        return parse_signing_key(secret, "secret")
    except InvalidSettings as error:  # inline ones were checked when they were saved, so a reference leads here
        raise ReferenceMissing(str(error)) from None


@lru_cache(maxsize=1000)
def _tls_context(files: TlsFiles, *, http2: bool) -> ssl.SSLContext:
    """Return one context for all destinations with the same files, so that their connections can be shared.

    The engine writes the protocols it offers into a context, so one with `http2` is another one.
    """
    protocols = ["h2", "http/1.1"] if http2 else ["http/1.1"]
    try:
        context = ssl.create_default_context(cafile=files.ca_file)
        if files.client_certificate is not None:
            context.load_cert_chain(files.client_certificate, files.client_key)
        context.set_alpn_protocols(protocols)
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ReferenceMissing(f"ca_file, client_certificate or client_key: {cause}") from None
    return context


def _hidden(url: Url, secrets: list[str], headers: Mapping[str, str]) -> list[str]:
    """Return what may be a credential, in the spellings in which an answer or an error could repeat it."""
    values = [value for header in headers.values() for value in (header, header.partition(" ")[2])]  # Bearer …
    keys = [part for secret in secrets for part in (secret, secret.partition("_")[2])]
    path, _, query = url.target.partition("?")
    pairs = [pair.partition("=")[2] or pair for pair in query.split("&") if pair]
    segments = [segment for segment in path.split("/") if _LIKE_A_TOKEN.fullmatch(segment)]
    parts = [url.target if url.target != "/" else "", query, *pairs, *segments]
    return [text for text in (*keys, *values, *parts, *map(unquote, parts)) if text]
