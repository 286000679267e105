"""A webhook destination's settings as people may see them. Pure, no I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outbox.errors import InvalidSettings
from outbox.secrets import shown_secret
from relays.http.url import parse_url

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["shown_settings"]


def shown_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return `settings` without what may be a credential: inline secrets, header values, the URL's path and query.

    References (`env:NAME`, `file:PATH`) stay: they say where a secret is, not what it is. Takes anything that
    may be stored, also settings that no longer parse.
    """
    return {name: _SHOWN.get(name, _same)(value) for name, value in settings.items()}


def _same(value: Any) -> Any:
    return value


def _url(value: Any) -> str:
    try:
        return parse_url(value, "url").shown
    except InvalidSettings:
        return shown_secret("")


def _secret(value: Any) -> Any:
    return [_secret(one) for one in value] if isinstance(value, list) else shown_secret(str(value))


def _previous(value: Any) -> Any:
    entries = value if isinstance(value, list) else []
    return [
        {"secret": _secret(one.get("secret")), "until": one.get("until")} for one in entries if isinstance(one, dict)
    ]


def _headers(value: Any) -> Any:
    return {name: _secret(one) for name, one in value.items()} if isinstance(value, dict) else shown_secret("")


_SHOWN: dict[str, Any] = {
    "url": _url,
    "proxy": _url,
    "secret": _secret,
    "previous_secrets": _previous,
    "headers": _headers,
}
