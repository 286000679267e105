"""Signed headers of one attempt (Standard Webhooks). Pure, no I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outbox.webhook_keys import signed_content

if TYPE_CHECKING:
    from collections.abc import Iterable

    from outbox.webhook_keys import SigningKey

__all__ = ["signed_headers"]


def signed_headers(keys: Iterable[SigningKey], webhook_id: str, seconds: int, body: bytes) -> dict[str, str]:
    """Return id, timestamp and, with any `keys`, one signature by each: old ones stay valid during a rotation."""
    timestamp = str(seconds)
    headers = {"webhook-id": webhook_id, "webhook-timestamp": timestamp}
    content = signed_content(webhook_id, timestamp, body)
    if signatures := " ".join([key.sign(content) for key in keys]):
        headers["webhook-signature"] = signatures
    return headers
