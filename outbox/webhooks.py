"""For receivers: is this request really from the outbox, and lately? Works with any web framework."""

from __future__ import annotations

import binascii
import re
import time
from base64 import b64decode
from typing import TYPE_CHECKING

from outbox.errors import InvalidSignature
from outbox.webhook_keys import parse_key, signed_content

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from outbox.webhook_keys import Key

__all__ = ["verify"]

_TIMESTAMP = re.compile(r"[0-9]{1,12}", re.ASCII)
_ID = re.compile(r"[!-\-/-~]{1,256}")
_LONGEST_SIGNATURES = 8192


def verify(
    headers: Mapping[str, str],
    body: bytes,
    secrets: str | Iterable[str],
    *,
    tolerance: float = 300.0,
    now: float | None = None,
) -> str:
    """Check the signature of a received webhook and return its `webhook-id`: the identity to deduplicate by.

    Give the body as the bytes that came in: parsed and dumped again, they are others. One valid signature by
    one of the `secrets` (`whsec_…`, `whsk_…`, `whpk_…`) is enough. `tolerance` is by how many seconds the
    sender's clock and this one may differ, and so how long a captured request stays valid; `now` (Unix
    seconds) is for tests.

    Raises:
        InvalidSignature: whatever is wrong with the request; one type, so that one `except` answers 401.
        InvalidSettings: one of the secrets is no webhook secret.
    """
    if not isinstance(body, bytes | bytearray | memoryview):
        raise TypeError(f"verify needs the body as bytes, not {type(body).__name__}: text may differ from them")
    wanted = {"webhook-id": "", "webhook-timestamp": "", "webhook-signature": ""}
    wanted.update((name.lower(), value) for name, value in headers.items() if name.lower() in wanted)
    webhook_id, timestamp, signatures = wanted.values()
    clock = time.time() if now is None else now  # noqa: TID251 - compared with the sender's clock
    _check_identity(webhook_id, timestamp, clock, tolerance)
    content = signed_content(webhook_id, timestamp, bytes(body))
    if not _is_signed(content, signatures, _keys(secrets)):
        raise InvalidSignature("webhook-signature: no signature fits these secrets and this body")
    return webhook_id


def _keys(secrets: str | Iterable[str]) -> Sequence[Key]:
    listed = [secrets] if isinstance(secrets, str) else list(secrets)
    return [parse_key(secret, f"secrets[{position}]") for position, secret in enumerate(listed)]


def _check_identity(webhook_id: str, timestamp: str, now: float, tolerance: float) -> None:
    if not _ID.fullmatch(webhook_id):  # with a full stop, parts of id, timestamp and body could change places
        raise InvalidSignature("webhook-id: the header is missing, too long, or has a full stop or odd characters")
    if not _TIMESTAMP.fullmatch(timestamp):
        raise InvalidSignature("webhook-timestamp: the header is missing or not a number of seconds")
    off = int(timestamp) - now
    if abs(off) > tolerance:
        raise InvalidSignature(f"webhook-timestamp: {abs(off):.0f} s {'ahead of' if off > 0 else 'behind'} this clock")


def _is_signed(content: bytes, signatures: str, keys: Sequence[Key]) -> bool:
    return any(
        key.version == version and key.is_valid(signature, content)
        for version, signature in _listed(signatures[:_LONGEST_SIGNATURES])
        for key in keys
    )


def _listed(signatures: str) -> Iterator[tuple[str, bytes]]:
    """Yield version and signature of each list item that is one; others may be versions to come."""
    for item in signatures.split(" "):
        version, _, text = item.partition(",")
        try:
            yield version, b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            continue
