"""Who a delivery's mail is from and to, and its bytes: a function of the delivery and the settings alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outbox.errors import InvalidEvent
from outbox.mail import parse_mail
from outbox.mailboxes import parse_mailbox
from relays.sinks.email.message import build_message

if TYPE_CHECKING:
    from outbox.mail import Mail
    from outbox.mailboxes import Mailbox
    from relays.deliveries import Delivery
    from relays.sinks.email.settings import EmailSettings

__all__ = ["Envelope", "build_envelope"]


@dataclass(frozen=True, slots=True)
class Envelope:
    """What SMTP carries: the return path, the recipients, the content with CRLF line ends."""

    return_path: str
    recipients: tuple[str, ...]
    content: bytes

    @property
    def needs_smtputf8(self) -> bool:
        """Whether an address is not ASCII, in the envelope or in a header line."""
        return not (self.return_path.isascii() and "".join(self.recipients).isascii() and self.content.isascii())


def build_envelope(delivery: Delivery, settings: EmailSettings) -> Envelope:
    """Return the envelope of `delivery`: to its one recipient, or to everybody the payload names.

    Raises:
        InvalidEvent: it can never be sent; names the JSON path and the remedy, never the content.
    """
    mail = parse_mail(delivery.payload)
    sender = mail.sender or settings.sender
    if sender is None:
        raise InvalidEvent(
            "$.from: there is none; give one, or set a default: outbox destinations set NAME --set from=…"
        )
    content = _content(delivery, mail, sender, settings.message_id_domain or sender.domain)
    if len(content) > settings.max_message_bytes:
        raise InvalidEvent(
            f"$: the message has {len(content)} bytes, more than max_message_bytes ({settings.max_message_bytes})"
        )
    return Envelope((settings.return_path or sender).address, _recipients(delivery, mail), content)


def _content(delivery: Delivery, mail: Mail, sender: Mailbox, domain: str) -> bytes:
    return build_message(
        mail,
        sender=sender,
        message_id=f"<{delivery.event_id}.{delivery.destination.id}@{domain}>",
        date=delivery.recorded_at,
        boundary=f"=_{delivery.event_id}",
    )


def _recipients(delivery: Delivery, mail: Mail) -> tuple[str, ...]:
    """Return who this delivery is for. `recipient` is an element of the payload's lists, as text."""
    if delivery.recipient is None:
        return mail.recipients
    return (parse_mailbox(_element(delivery.recipient), "recipient").address,)


def _element(text: str) -> object:
    """Return the element that was written as `text`: an object, or a string, which may begin with a brace, too."""
    try:
        element = json.loads(text)
    except ValueError:
        return text
    return element if isinstance(element, dict) else text
