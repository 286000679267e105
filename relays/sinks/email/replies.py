"""What an SMTP reply or a broken session means for the delivery and its destination: one table. Pure, no I/O.

phase                reply or event                    meaning
connect              refused, DNS, time-out            again, not charged; the destination is held a while
greeting, EHLO       4yz, 421                          again, not charged; held a while
greeting, EHLO       5yz                               again, not charged; tripped
STARTTLS             not offered, bad certificate, 5yz again, not charged; tripped: it never falls back to plain text
AUTH                 4yz                               again, not charged; held a while
AUTH                 5yz, not offered                  again, not charged; tripped: a wrong password is no bad mail
any later            530 534 535 538                   as AUTH 5yz: the server wants a login or encryption
any                  421, end of session, time-out     again (before the end of the data nothing was sent)
MAIL FROM            4yz again, 5yz dead
RCPT TO              250 251 252 accepted; 4yz again; 552 again unless 5.2.2, 5.2.3, 5.3.4 or 5.7.x; other 5yz dead
DATA                 354 goes on; 4yz again, 5yz dead
end of data          2yz delivered; 4yz again, 5yz dead
end of data          end of session, time-out, no SMTP ambiguous: again, or kept as dead with `on_ambiguous = hold`
SMTPUTF8 needed, not offered; larger than SIZE        dead

A 4yz to RCPT TO is about that mailbox (greylisting, full) and counts nothing against the destination, unless an
enhanced code 4.3.x says that the server itself is in trouble.

An enhanced code X.Y.Z refines a basic code of the same class; where they disagree the basic code counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from outbox.model import Certainty
from relays.details import clean_detail
from relays.results import Hold, Refused

__all__ = ["Fault", "Phase", "Trouble", "enhanced_code", "refused_by"]

CONNECT_HOLD_SECONDS = 30.0
BUSY_HOLD_SECONDS = 60.0
TRIP_SECONDS = 300.0

SERVICE_CLOSING = 421
PERMANENT = 500
_LONGEST_REASON = 500
_LOGIN_WANTED = frozenset((530, 534, 535, 538))
_TOO_MANY_RECIPIENTS = 552  # RFC 5321 4.5.3.1.10: old servers say 552 where 452 is meant
_PERMANENT_552 = re.compile(r"5\.2\.[23]|5\.3\.4|5\.7\.\d+")
_ENHANCED = re.compile(r"([245]\.\d{1,3}\.\d{1,3})(?=\s|$)")
_UNKNOWN_MAILBOX = re.compile(r"5\.1\.(1|2|10)")
_MAILBOX_CODES = frozenset((550, 551, 553))


class Phase(StrEnum):
    """Where in the session something happened."""

    CONNECT = "connect"
    GREETING = "greeting"
    EHLO = "EHLO"
    STARTTLS = "STARTTLS"
    AUTH = "AUTH"
    MAIL = "MAIL FROM"
    RCPT = "RCPT TO"
    DATA = "DATA"
    FINAL = "end of data"


class Fault(StrEnum):
    """What went wrong without a usable reply; the values are reasons of attempts."""

    UNREACHABLE = "unreachable"
    DISCONNECTED = "disconnected"
    TIMEOUT = "timeout"
    GARBLED = "not_smtp"
    CERTIFICATE = "tls_failed"
    NO_STARTTLS = "starttls_not_offered"
    NO_AUTH = "auth_not_offered"
    NO_SMTPUTF8 = "smtputf8_not_offered"
    TOO_LARGE = "message_too_large"


_SESSION_PHASES = frozenset((Phase.CONNECT, Phase.GREETING, Phase.EHLO, Phase.STARTTLS, Phase.AUTH))
_TRIPPING = frozenset((Fault.CERTIFICATE, Fault.NO_STARTTLS, Fault.NO_AUTH))
_PERMANENT = frozenset((Fault.NO_SMTPUTF8, Fault.TOO_LARGE))


@dataclass(eq=False)
class Trouble(Exception):
    """Why a session did not get on: a reply's `code` (400 to 599) and `text`, or a `fault` described by `text`."""

    phase: Phase
    text: str
    code: int | None = None
    fault: Fault | None = None

    @property
    def ends_session(self) -> bool:
        """Whether the connection cannot be used again."""
        return self.code == SERVICE_CLOSING or (self.fault is not None and self.fault not in _PERMANENT)

    @property
    def is_end_of_session(self) -> bool:
        """Whether the server had closed the session: what an idle connection finds."""
        return self.code == SERVICE_CLOSING or self.fault is Fault.DISCONNECTED

    @property
    def is_ambiguous(self) -> bool:
        """Whether the server may have accepted the message all the same."""
        return self.phase is Phase.FINAL and self.code is None

    @property
    def is_servers_fault(self) -> bool:
        """Whether it says nothing about the message: the session did not even get that far."""
        return self.phase in _SESSION_PHASES or self.code in _LOGIN_WANTED

    @property
    def is_about_mailbox(self) -> bool:
        """Whether it is about the one mailbox: greylisting of many is no reason to stop the server's other mail."""
        if self.phase is not Phase.RCPT or self.is_servers_fault or self.code in {None, SERVICE_CLOSING}:
            return False
        return not (enhanced_code(self.code or 0, self.text) or "").startswith("4.3.")

    @property
    def is_permanent(self) -> bool:
        """Whether the same message can never be accepted."""
        if self.is_servers_fault or self.is_ambiguous:
            return False
        if self.fault is not None:
            return self.fault in _PERMANENT
        if self.phase is Phase.RCPT and self.code == _TOO_MANY_RECIPIENTS:
            return _PERMANENT_552.fullmatch(enhanced_code(self.code, self.text) or "") is not None
        return self.code is not None and self.code >= PERMANENT


def enhanced_code(code: int, text: str) -> str | None:
    """Return the enhanced status code (RFC 3463) at the start of a reply, if its class is that of `code`."""
    found = _ENHANCED.match(text)
    return found[1] if found is not None and found[1][0] == str(code)[0] else None


def refused_by(trouble: Trouble, server: str, hidden: tuple[str, ...] = ()) -> Refused:
    """Return what `trouble` with `server` (host and port) means."""
    detail = clean_detail(f"{server}: {_described(trouble)}", hidden)
    return Refused(
        reason=trouble.fault.value if trouble.fault is not None else f"smtp_{trouble.code}",
        detail=detail,
        permanent=trouble.is_permanent,
        certainty=_certainty(trouble),
        status=trouble.code,
        charged=not trouble.is_servers_fault,
        hold=_hold(trouble, detail),
        is_delivery_only=trouble.is_about_mailbox,
    )


def _certainty(trouble: Trouble) -> Certainty:
    if trouble.is_ambiguous:
        return Certainty.AMBIGUOUS
    return Certainty.ANSWERED if trouble.fault is None else Certainty.NOT_SENT


def _described(trouble: Trouble) -> str:
    said = " ".join(trouble.text.split())
    if trouble.code is None:
        return f"{trouble.phase}: {said}"
    return f"{trouble.phase}: {trouble.code} {said}".rstrip() + _hint(trouble)


def _hint(trouble: Trouble) -> str:
    """Return what the code tells beyond itself, for who reads the history."""
    code, enhanced = trouble.code or 0, enhanced_code(trouble.code or 0, trouble.text)
    if trouble.phase is Phase.RCPT and trouble.is_permanent:
        if _UNKNOWN_MAILBOX.fullmatch(enhanced or "") or (enhanced is None and code in _MAILBOX_CODES):
            return " (no such mailbox: stop writing to it)"
        if enhanced is not None and enhanced.startswith("5.7."):
            return " (refused by policy: the mailbox may be good)"
    return (
        " (the server wants a login or encryption)"
        if code in _LOGIN_WANTED and trouble.phase not in _SESSION_PHASES
        else ""
    )


def _hold(trouble: Trouble, detail: str) -> Hold | None:
    if not trouble.is_servers_fault:
        return None
    reason = detail[:_LONGEST_REASON]
    if trouble.fault in _TRIPPING or (trouble.code is not None and trouble.code >= PERMANENT):
        return Hold("tripped", reason, TRIP_SECONDS)
    return Hold("held", reason, CONNECT_HOLD_SECONDS if trouble.phase is Phase.CONNECT else BUSY_HOLD_SECONDS)
