"""What aiosmtplib and the sockets below it raise, as `Trouble` of the step it was raised in."""

from __future__ import annotations

import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING

import aiosmtplib

from relays.sinks.email.replies import Fault, Phase, Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["reply_trouble", "troubles"]

_REFUSED = range(400, 600)


@contextmanager
def troubles(phase: Phase) -> Iterator[None]:
    """Turn what aiosmtplib and the sockets below it raise into `Trouble` of `phase`."""
    try:
        yield
    except aiosmtplib.SMTPConnectResponseError as error:
        raise reply_trouble(Phase.GREETING, error.code, error.message) from error
    except aiosmtplib.SMTPResponseException as error:
        raise reply_trouble(phase, error.code, error.message) from error
    except (aiosmtplib.SMTPException, OSError, ValueError) as error:
        raise Trouble(phase, str(error) or type(error).__name__, fault=_fault(error)) from error


def reply_trouble(phase: Phase, code: int, text: str) -> Trouble:
    """Return the trouble that a reply is where another one was expected."""
    if code in _REFUSED:
        return Trouble(phase, text, code=code)
    return Trouble(phase, f"unexpected answer {code} {text}", fault=Fault.GARBLED)


def _fault(error: Exception) -> Fault:
    match error, error.__cause__:
        case (ssl.SSLError(), _) | (_, ssl.SSLError()):
            return Fault.CERTIFICATE
        case aiosmtplib.SMTPTimeoutError(), _:
            return Fault.TIMEOUT
        case aiosmtplib.SMTPConnectError(), _:
            return Fault.UNREACHABLE
        case ConnectionError(), _:
            return Fault.DISCONNECTED
        case _:
            return Fault.GARBLED
