"""Checks of a webhook destination before it is saved."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from outbox.errors import InvalidSettings
from relays.http.resolver import lookup
from relays.sinks.webhook.settings import parse_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from relays.sinks.webhook.settings import WebhookSettings

__all__ = ["check_settings"]

RESOLVE_SECONDS = 2.0


def check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse settings that could not be sent with; looks the URL's name up, but no secret and no file.

    A name that does not resolve here may do so where the relay runs, so it passes: the guard looks again at
    every connection.

    Raises:
        InvalidSettings: names the setting and the remedy, never a secret.
    """
    checked = parse_settings(settings)
    for address in _addresses(checked):
        if (refusal := checked.guard.refusal(checked.url.host, address)) is not None:
            raise InvalidSettings(f"url: {refusal}")


def _addresses(settings: WebhookSettings) -> list[str]:
    if settings.url.is_literal:
        return [settings.url.host.strip("[]")]
    if settings.proxy is not None:  # the proxy resolves the name, perhaps to something else
        return []
    found: list[str] = []
    # A daemon thread: a resolver that hangs must keep neither the command nor its exit waiting.
    asking = threading.Thread(target=_look_up, args=(settings.url.host, found), daemon=True)
    asking.start()
    asking.join(RESOLVE_SECONDS)
    return list(found)


def _look_up(host: str, found: list[str]) -> None:
    try:
        found.extend(lookup(host))
    except OSError:
        return
