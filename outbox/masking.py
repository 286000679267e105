"""The settings of a destination as people may see them: references as they are, secrets and URL tokens masked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from outbox.errors import InvalidSettings
from outbox.plugins import load_sink
from outbox.secrets import REDACTED, shown_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["shown_settings"]


def shown_settings(sink: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return `settings` fit to be shown; the sink says which are secret, and where it is not installed all may be."""
    try:
        kind = load_sink(sink)
    except InvalidSettings:
        return {name: _masked(value) for name, value in settings.items()}  # nobody says which are secret
    if hasattr(kind, "shown_settings"):
        shown: dict[str, Any] = kind.shown_settings(settings)
        return shown
    secret_names: frozenset[str] = getattr(kind, "secret_settings", frozenset())
    return {
        name: _masked(value) if name in secret_names else _without_tokens(value) for name, value in settings.items()
    }


def _masked(value: Any) -> Any:
    """Return what may be shown of a secret setting: references, and of a URL its host."""
    match value:
        case list():
            return [_masked(item) for item in value]
        case dict():
            return {name: _masked(item) for name, item in value.items()}
        case str() if "://" in value:
            return _without_tokens(value)
        case str():
            return shown_secret(value)
        case _:
            return value


def _without_tokens(value: Any) -> Any:
    """Mask what in a URL may be a credential: the user, the path and the query."""
    if not isinstance(value, str) or "://" not in value:
        return value
    scheme, _, rest = value.partition("://")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]  # a query may follow the host at once
    return f"{scheme}://{host}/{REDACTED}"
