"""A mail as the bytes that are sent: the same for each attempt, on every version of Python. Pure, no I/O.

Everything is ASCII in lines of at most 998 bytes, except addresses whose local part is not: no server has to know
8BITMIME, and only those mails need SMTPUTF8.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC
from email.utils import format_datetime
from typing import TYPE_CHECKING

from relays.sinks.email.header_lines import address_line, filename_parameters, text_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from outbox.mail import Attachment, Mail
    from outbox.mailboxes import Mailbox

__all__ = ["build_message"]

PLAIN_LINE = 78
"""Longest line of text that is sent as it is."""

_NEWLINES = re.compile(r"\r\n|\r|\n")
_PLAIN = re.compile(r"[\t\n\r -~]*")
_BASE64_LINE = 57
_LONGEST_WORD = 900


def build_message(mail: Mail, *, sender: Mailbox, message_id: str, date: datetime, boundary: str) -> bytes:
    """Return the message, with CRLF line ends.

    `date` is when the event was recorded, `boundary` a text of its own for each event: nothing here depends on the
    present time, on chance or on the machine.
    """
    lines = [
        address_line("From", [sender]),
        *(address_line(name, boxes) for name, boxes in (("To", mail.to), ("Cc", mail.cc)) if boxes),
        *([address_line("Reply-To", mail.reply_to)] if mail.reply_to else []),
        text_line("Subject", mail.subject),
        text_line("Date", format_datetime(date.astimezone(UTC).replace(microsecond=0))),
        text_line("Message-ID", message_id, longest_word=_LONGEST_WORD),
        *([] if mail.to or mail.cc else [b"To: undisclosed-recipients:;\r\n"]),
        *_extra_lines(mail),
        b"MIME-Version: 1.0\r\n",
    ]
    return b"".join(lines) + _body(mail, boundary)


def _extra_lines(mail: Mail) -> list[bytes]:
    given = {name.lower() for name, _ in mail.headers}
    # RFC 3834: holiday notices and the like are not sent in answer to it
    automatic = [] if "auto-submitted" in given else [("Auto-Submitted", "auto-generated")]
    return [text_line(name, value, longest_word=_LONGEST_WORD) for name, value in (*automatic, *mail.headers)]


def _body(mail: Mail, boundary: str) -> bytes:
    """Return headers and content of the mixed part: the texts, then the files."""
    inline = [attachment for attachment in mail.attachments if attachment.content_id is not None]
    files = [attachment for attachment in mail.attachments if attachment.content_id is None]
    texts = _texts(mail, inline if mail.html is not None else [], boundary)
    others = files if mail.html is not None else list(mail.attachments)
    return _multipart("mixed", f"{boundary}_0", [texts, *(_file(attachment) for attachment in others)])


def _texts(mail: Mail, inline: Sequence[Attachment], boundary: str) -> bytes:
    parts = [] if mail.text is None else [_text("plain", mail.text)]
    if mail.html is not None:
        page = [_text("html", mail.html), *(_file(attachment) for attachment in inline)]
        parts.append(_multipart("related", f"{boundary}_2", page))
    return _multipart("alternative", f"{boundary}_1", parts)


def _multipart(kind: str, boundary: str, parts: Sequence[bytes]) -> bytes:
    """Return the parts as one; a single part stays as it is."""
    if len(parts) == 1:
        return parts[0]
    delimiter = f"\r\n--{boundary}\r\n".encode()
    head = f'Content-Type: multipart/{kind};\r\n boundary="{boundary}"\r\n'.encode()
    return head + b"".join(delimiter + part for part in parts) + f"\r\n--{boundary}--\r\n".encode()


def _text(kind: str, text: str) -> bytes:
    text = _NEWLINES.sub("\r\n", text)
    if not text.endswith("\r\n"):
        text += "\r\n"
    if _PLAIN.fullmatch(text) and "=_" not in text and all(len(line) <= PLAIN_LINE for line in text.split("\r\n")):
        charset, encoding, content = "us-ascii", "7bit", text.encode()
    else:
        charset, encoding, content = "utf-8", "quoted-printable", _quoted_printable(text)
    head = f"Content-Type: text/{kind}; charset={charset}\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n"
    return head.encode() + content


def _quoted_printable(text: str) -> bytes:
    return binascii.b2a_qp(text.encode(), istext=True)


def _file(attachment: Attachment) -> bytes:
    kind = "inline" if attachment.content_id is not None else "attachment"
    parameters = "".join(f";\r\n {parameter}" for parameter in filename_parameters(attachment.filename))
    content_id = f"Content-ID: <{attachment.content_id}>\r\n" if attachment.content_id is not None else ""
    head = (
        f"Content-Type: {attachment.media_type}\r\nContent-Transfer-Encoding: base64\r\n"
        f"Content-Disposition: {kind}{parameters}\r\n{content_id}\r\n"
    )
    return head.encode() + _base64_lines(attachment.content)


def _base64_lines(content: bytes) -> bytes:
    lines = (content[start : start + _BASE64_LINE] for start in range(0, len(content), _BASE64_LINE))
    return b"".join(base64.b64encode(line) + b"\r\n" for line in lines)
