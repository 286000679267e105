"""Changing a destination's signing secret without a moment in which its receiver refuses. Pure, no I/O."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from outbox.errors import InvalidSettings
from relays.sinks.webhook.settings import Secret, parse_settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

__all__ = ["rotated"]


def rotated(settings: Mapping[str, Any], new_secret: str, grace_seconds: float, now: datetime) -> dict[str, Any]:
    """Return `settings` with `new_secret`; the secrets so far sign beside it until `grace_seconds` after `now`.

    `new_secret` is a reference (`env:NAME`, `file:PATH`) or a secret itself. Secrets of earlier rotations keep
    their own end, and are forgotten once it has passed.

    Raises:
        InvalidSettings: the new secret is none, or is the current one already.
    """
    before = parse_settings(settings).secrets
    current = [secret.reference for secret in before if secret.until is None]
    if new_secret in current:
        raise InvalidSettings("secret: is the current one already; give a new one")
    until = now + timedelta(seconds=grace_seconds)
    leaving = [Secret(reference, until) for reference in current] + [secret for secret in before if secret.until]
    after = {name: value for name, value in settings.items() if name != "previous_secrets"} | {"secret": new_secret}
    if previous := [_stored(one, now) for one in leaving if _still_signs(one, now) and one.reference != new_secret]:
        after["previous_secrets"] = previous
    parse_settings(after)
    return after


def _still_signs(secret: Secret, now: datetime) -> bool:
    return secret.until is not None and secret.until > now


def _stored(secret: Secret, now: datetime) -> dict[str, str]:
    return {"secret": secret.reference, "until": (secret.until or now).isoformat()}
