"""Texts from the other side, made fit to be kept: without secrets, storable, short. Pure, no I/O."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from outbox.secrets import redact

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["clean_detail", "shown_body"]

LONGEST_BYTES = 4096
_CUT = " … [cut]"
# C0 and C1 controls: NUL is not storable, an escape sequence would run in the terminal of who reads the history.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def clean_detail(text: str, secrets: Iterable[str]) -> str:
    """Return `text` redacted, storable by PostgreSQL and at most 4096 bytes of UTF-8."""
    redacted = redact(text, secrets)
    if len(redacted) * 4 <= LONGEST_BYTES and redacted.isprintable():
        return redacted
    cleaned = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", redacted.replace("\r\n", "\n"))
    encoded = cleaned.encode()
    if len(encoded) <= LONGEST_BYTES:
        return cleaned
    return encoded[: LONGEST_BYTES - len(_CUT.encode())].decode(errors="ignore") + _CUT


def shown_body(body: bytes, *, is_cut: bool) -> str:
    """Return an answer's body as text; bytes that are no UTF-8 are counted, not shown."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        if not is_cut or error.start < len(body) - 3:  # else: only the last character was cut in two
            return f"[{len(body)} bytes that are not UTF-8 text]"
        text = body[: error.start].decode()
    return text.strip() + (_CUT if is_cut else "")
