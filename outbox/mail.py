"""The payload of an event for the `email` sink, read strictly. No I/O here.

    {"to": ["Ada <ada@example.com>"], "cc": [], "bcc": [], "from": "shop@example.com", "reply_to": "help@example.com",
     "subject": "Your order", "text": "…", "html": "…", "headers": {"X-Order": "17"},
     "list_unsubscribe": "https://example.com/unsubscribe/17",
     "attachments": [{"filename": "invoice.pdf", "content_type": "application/pdf", "content": "<base64>"}]}

`check_mail` may be called before an event is recorded; the relay reads the payload by the same rules, and what they
refuse is dead at once.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from outbox.errors import InvalidEvent
from outbox.mailboxes import Mailbox, has_controls, parse_mailbox

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Attachment", "Mail", "check_mail", "parse_mail"]

MOST_RECIPIENTS = 1000
MOST_HEADERS = 50
LONGEST_SUBJECT = 2000
LONGEST_HEADER = 4000
LONGEST_WORD = 900
"""A header line ends after 998 bytes, and breaks at spaces only."""

_FIELDS = frozenset(
    "to cc bcc subject text html from reply_to headers attachments list_unsubscribe".split()  # noqa: SIM905 - one line
)
_ATTACHMENT_FIELDS = frozenset(("filename", "content_type", "content", "content_id"))
_HEADER_NAME = re.compile(r"[A-Za-z0-9-]{1,76}", re.ASCII)
_MEDIA_TYPE = re.compile(r"(?P<type>[a-z0-9][a-z0-9.+_-]{0,63})/[a-z0-9][a-z0-9.+_-]{0,63}", re.ASCII)
_CONTENT_ID = re.compile(r"[A-Za-z0-9.@_+-]{1,128}", re.ASCII)
_UNSUBSCRIBE = re.compile(r"(?:https://|mailto:)[!-;=?-~]{1,800}", re.ASCII)
_OURS = frozenset((
    "from", "to", "cc", "bcc", "reply-to", "subject", "date", "message-id", "mime-version", "sender", "return-path",
    "received", "dkim-signature", "list-unsubscribe", "list-unsubscribe-post",
))  # fmt: skip
_OUR_PREFIXES = ("content-", "resent-", "arc-")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file sent with a mail; with a `content_id` it belongs to the HTML, as `<img src="cid:…">`."""

    filename: str
    media_type: str
    content: bytes
    content_id: str | None = None


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail as its payload describes it. `sender` None: the destination's default."""

    sender: Mailbox | None
    to: tuple[Mailbox, ...]
    cc: tuple[Mailbox, ...]
    bcc: tuple[Mailbox, ...]
    reply_to: tuple[Mailbox, ...]
    subject: str
    text: str | None
    html: str | None
    headers: tuple[tuple[str, str], ...]
    attachments: tuple[Attachment, ...]

    @property
    def recipients(self) -> tuple[str, ...]:
        """The addresses it goes to, each once."""
        return tuple(dict.fromkeys(mailbox.address for mailbox in (*self.to, *self.cc, *self.bcc)))


def check_mail(payload: Mapping[str, Any]) -> None:
    """Check a payload before it is recorded for an e-mail destination.

    Raises:
        InvalidEvent: it can never be sent; names the JSON path and the remedy, never the content.
    """
    parse_mail(payload)


def parse_mail(payload: object) -> Mail:
    """Return the mail that `payload` describes.

    Raises:
        InvalidEvent: it can never be sent; names the JSON path and the remedy, never the content.
    """
    if not isinstance(payload, dict):
        raise InvalidEvent('$: is no mail; give an object like {"to": "ada@example.com", "subject": "…", "text": "…"}')
    if unknown := sorted(payload.keys() - _FIELDS):
        raise InvalidEvent(f"$.{unknown[0][:100]}: is no field of a mail; it knows {', '.join(sorted(_FIELDS))}")
    mail = Mail(
        sender=None if payload.get("from") is None else parse_mailbox(payload["from"], "$.from"),
        to=_mailboxes(payload, "to"),
        cc=_mailboxes(payload, "cc"),
        bcc=_mailboxes(payload, "bcc"),
        reply_to=_mailboxes(payload, "reply_to"),
        subject=_line(payload.get("subject") or "", "$.subject", LONGEST_SUBJECT),
        text=_text(payload, "text"),
        html=_text(payload, "html"),
        headers=(*_headers(payload), *_unsubscribe(payload)),
        attachments=_attachments(payload),
    )
    if not 1 <= len(mail.recipients) <= MOST_RECIPIENTS:
        raise InvalidEvent(f"$.to: {len(mail.recipients)} recipients; give 1 to {MOST_RECIPIENTS} in to, cc and bcc")
    if mail.text is None and mail.html is None:
        raise InvalidEvent("$.text: there is neither text nor html; give one, even if empty")
    return mail


def _mailboxes(payload: Mapping[str, Any], field: str) -> tuple[Mailbox, ...]:
    given = payload.get(field)
    if given is None:
        return ()
    if not isinstance(given, list):
        return (parse_mailbox(given, f"$.{field}"),)
    return tuple(parse_mailbox(value, f"$.{field}[{position}]") for position, value in enumerate(given))


def _line(value: object, path: str, longest: int) -> str:
    if not isinstance(value, str):
        raise InvalidEvent(f"{path}: is not a string")
    if has_controls(value):
        raise InvalidEvent(f"{path}: has a line break or another control character; remove it")
    if len(value) > longest:
        raise InvalidEvent(f"{path}: is longer than {longest} characters")
    return value


def _text(payload: Mapping[str, Any], field: str) -> str | None:
    value = payload.get(field)
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidEvent(f"$.{field}: is not a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidEvent(f"$.{field}: has half of a surrogate pair, which is no character; remove it") from None
    return value


def _headers(payload: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    given = payload.get("headers", {})
    if not isinstance(given, dict) or len(given) > MOST_HEADERS:
        raise InvalidEvent(f"$.headers: give an object of at most {MOST_HEADERS} strings")
    for name in given:
        _check_header_name(name)
    return tuple((name, _header_value(value, f"$.headers.{name}")) for name, value in given.items())


def _check_header_name(name: str) -> None:
    if not _HEADER_NAME.fullmatch(name):
        raise InvalidEvent("$.headers: a name has other characters than letters, digits and hyphens, or more than 76")
    if name.lower() in _OURS or name.lower().startswith(_OUR_PREFIXES):
        raise InvalidEvent(f"$.headers.{name}: is made from the mail's own fields; use those")


def _header_value(value: object, path: str) -> str:
    text = _line(value, path, LONGEST_HEADER).strip(" ")
    if text.isascii() and any(len(word) > LONGEST_WORD for word in text.split(" ")):
        raise InvalidEvent(f"{path}: has a word longer than {LONGEST_WORD} characters, which no line can hold")
    return text


def _unsubscribe(payload: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the headers of RFC 2369 and, for an https URL, RFC 8058 (one click, by POST)."""
    given = payload.get("list_unsubscribe")
    if given is None:
        return ()
    if not isinstance(given, str) or not _UNSUBSCRIBE.fullmatch(given):
        raise InvalidEvent("$.list_unsubscribe: give an https:// URL that accepts a POST, or a mailto: URL")
    header = ("List-Unsubscribe", f"<{given}>")
    one_click = ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click")
    return (header, one_click) if given.startswith("https:") else (header,)


def _attachments(payload: Mapping[str, Any]) -> tuple[Attachment, ...]:
    given = payload.get("attachments", [])
    if not isinstance(given, list):
        raise InvalidEvent("$.attachments: give a list of objects with filename, content_type and content (base64)")
    return tuple(_attachment(value, f"$.attachments[{position}]") for position, value in enumerate(given))


def _attachment(value: object, path: str) -> Attachment:
    if not isinstance(value, dict) or value.keys() - _ATTACHMENT_FIELDS:
        raise InvalidEvent(f"{path}: give an object of filename, content_type, content (base64) and maybe content_id")
    media_type = str(value.get("content_type") or "application/octet-stream").lower()
    found = _MEDIA_TYPE.fullmatch(media_type)
    if found is None or found["type"] in {"multipart", "message"}:
        raise InvalidEvent(f"{path}.content_type: is no type of a file like application/pdf, without parameters")
    content_id = value.get("content_id")
    if content_id is not None and not (isinstance(content_id, str) and _CONTENT_ID.fullmatch(content_id)):
        raise InvalidEvent(f"{path}.content_id: use up to 128 letters, digits and . @ _ + -")
    filename = _line(value.get("filename"), f"{path}.filename", 255).strip(" ")
    if not filename or "/" in filename or "\\" in filename:
        raise InvalidEvent(f"{path}.filename: give a name of 1 to 255 characters without a path")
    return Attachment(filename, media_type, _content(value.get("content"), f"{path}.content"), content_id)


def _content(value: object, path: str) -> bytes:
    try:
        if isinstance(value, str):
            return base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        pass
    raise InvalidEvent(f"{path}: is not base64; encode the file's bytes with the standard alphabet and padding")
