"""What is known about one request while it is under way, and what it comes to."""

from __future__ import annotations

import os
import re
import ssl
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING

from relays.http.addresses import AddressRefused
from relays.http.engine import KEEP_BYTES, READ_BYTES, WIRE_BYTES, Answer, Failure, Phase, Timings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from relays.http.engine import Request

__all__ = ["Exchange", "current_exchange", "plain"]

current_exchange: ContextVar[Exchange] = ContextVar("current_exchange")
"""The exchange of the running task: the pools, resolvers and sockets of a library get no request of ours."""

_HEAD_BYTES = 32
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] (?P<status>101|[2-9][0-9][0-9])[ \r\n]")
_UNSAID = {"ConnectionResetError": "closed by the other side", "EndOfStream": "closed by the other side"}
"""What libraries raise without a word."""

_NO_HEADERS: Mapping[str, str] = {}


class Exchange:
    """One request under way: an engine tells it what happens and asks it for the outcome."""

    __slots__ = (
        "_answered_at",
        "_body",
        "_connected_at",
        "_head",
        "_length",
        "_received",
        "headers",
        "is_reused",
        "peer",
        "phase",
        "request",
        "started_at",
        "status",
    )

    def __init__(self, request: Request) -> None:
        self.request = request
        self.phase = Phase.RESOLVE
        self.peer: str | None = None
        self.is_reused = False
        self.status: int | None = None
        self.headers = _NO_HEADERS
        self._body: list[bytes] = []
        self._length = 0
        self._head = b""
        self._received = 0
        self.started_at = time.monotonic()
        self._connected_at: float | None = None
        self._answered_at: float | None = None

    def connected(self, peer: str | None, *, is_reused: bool) -> None:
        """Note that the request goes out on a connection to `peer` now."""
        self.phase = Phase.ANSWER
        self.peer = peer
        self.is_reused = is_reused
        if not is_reused:
            self._connected_at = time.monotonic()

    def received(self, data: bytes) -> None:
        """Note bytes of the answer as they come from the wire; the first few are kept."""
        self._received += len(data)
        if self._answered_at is None:
            self._answered_at = time.monotonic()
        if len(self._head) < _HEAD_BYTES:
            self._head += data[:_HEAD_BYTES]

    @property
    def has_answered(self) -> bool:
        """Whether any byte of an answer came since the request began."""
        return self._answered_at is not None

    @property
    def is_flooded(self) -> bool:
        """Whether more came than any answer that is read may have: interim answers or empty lines without an end."""
        return self._received > WIRE_BYTES

    def answered(self, status: int, headers: Mapping[str, str]) -> None:
        """Note the status and the headers."""
        self.phase = Phase.BODY
        self.status = status
        self.headers = headers

    def keep(self, chunk: bytes) -> bool:
        """Keep a chunk of the body within the limit; return whether to read on."""
        if self._length < KEEP_BYTES:
            self._body.append(chunk[: KEEP_BYTES - self._length])
        self._length += len(chunk)
        return self._length <= READ_BYTES

    def answer(self, *, is_complete: bool = True) -> Answer:
        """Return the answer; `is_complete` is false when the body was not read to its end."""
        return Answer(
            status=self.status or 0,
            headers=self.headers,
            body=b"".join(self._body),
            is_cut=not is_complete or self._length > KEEP_BYTES,
            peer=self.peer,
            connection_reused=self.is_reused,
            timings=self._timings(),
        )

    def timed_out(self, seconds: float) -> Answer | Failure:
        """Return what the request came to when its total time of `seconds` was over."""
        return self.failed("timeout", f"no answer within {seconds:g} s ({self.phase} phase)")

    def failed(self, reason: str, detail: str) -> Answer | Failure:
        """Return what the request came to when it broke off: a status, once there, is the answer."""
        if self.status is not None:
            return self.answer(is_complete=False)
        return Failure(
            reason=reason,
            detail=detail,
            phase=self.phase,
            has_answered=self.has_answered,
            peer=self.peer,
            connection_reused=self.is_reused,
            timings=self._timings(),
        )

    def unreadable(self, detail: str) -> Answer | Failure:
        """Return what an answer that is no HTTP or has too long headers comes to: its status line decides."""
        if self.status is None and (found := _STATUS_LINE.match(self._head)) is not None:
            self.answered(int(found["status"]), _NO_HEADERS)
        return self.failed("bad_response", detail)

    def broke(self, error: Exception) -> Answer | Failure:
        """Return what a request that ended with `error` comes to."""
        match error:
            case OSError() | AddressRefused():  # first: a refused certificate is a ValueError, too
                return self.failed(*self._explain(error))
            case ValueError():
                return self.failed("invalid_request", "the request cannot be sent; check url and headers")
            case _:
                return self.failed("engine_error", type(error).__name__)

    def _explain(self, error: OSError | AddressRefused) -> tuple[str, str]:
        match error:
            case AddressRefused():
                return "address_refused", str(error)
            case ssl.SSLError():
                return "tls_failed", _tls_detail(error)
            case OSError() if self.phase is Phase.RESOLVE:
                return "dns_failed", f"the name does not resolve: {plain(error)}"
            case TimeoutError():
                return "connect_timeout", f"no connection within {self.request.route.connect_seconds:g} s"
            case OSError() if self.phase is Phase.CONNECT:
                return "connect_failed", plain(error)
            case OSError():
                return "disconnected", f"connection lost before a status: {plain(error)}"

    def _timings(self) -> Timings:
        return Timings(
            connected=self._since_start(self._connected_at),
            first_byte=self._since_start(self._answered_at),
            total=time.monotonic() - self.started_at,
        )

    def _since_start(self, moment: float | None) -> float | None:
        return None if moment is None else moment - self.started_at


def _tls_detail(error: ssl.SSLError) -> str:
    """Return what is wrong with a certificate or a handshake."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate refused: {error.verify_message}"
    return f"TLS failed: {error.reason or plain(error)}"


def plain(error: BaseException) -> str:
    """Return the cause of `error` in one line, never empty."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        # asyncio writes the address and "connect call failed" into the text; a resolver's codes are negative
        is_system = not isinstance(error, ssl.SSLError) and (error.errno or 0) > 0
        text = os.strerror(error.errno) if is_system and error.errno is not None else error.strerror
    return " ".join(text.split()).lower() or _UNSAID.get(type(error).__name__, type(error).__name__)
