"""What an HTTP library has to do here: bytes in; status, headers, bytes and how far a failure came out."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from outbox.model import Certainty
from relays.http.addresses import Guard

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from relays.http.url import Url

__all__ = [
    "KEEP_BYTES",
    "READ_BYTES",
    "WIRE_BYTES",
    "Answer",
    "Engine",
    "Failure",
    "Phase",
    "Request",
    "Route",
    "Timings",
]

READ_BYTES = 16 * 1024
"""More of an answer's body is not read; the connection is closed instead."""

KEEP_BYTES = 4 * 1024
"""More of an answer's body is not kept."""

WIRE_BYTES = 1024 * 1024
"""An answer that takes more on the wire is given up: parsing a flood for 20 s would take a core from all others."""

BODY_SECONDS = 5.0
"""An answer's body is waited for this long: the status has decided already."""


class Phase(StrEnum):
    """How far a request has come."""

    RESOLVE = "resolve"
    CONNECT = "connect"
    ANSWER = "answer"
    BODY = "body"

    @property
    def certainty(self) -> Certainty:
        """What is known about the receiver when a request ends in this phase without a status."""
        return Certainty.NOT_SENT if self in {Phase.RESOLVE, Phase.CONNECT} else Certainty.AMBIGUOUS


@dataclass(eq=False, slots=True)
class Route:
    """What all requests to one receiver have in common: made once, since there may be thousands a second.

    `headers` (lower-case names) go out with every request. `tls` is None for the system's certificate authorities.
    `http2` and `proxy` are for the engine that has them; behind a proxy the guard sees no address, so the proxy must
    refuse private ones.
    """

    url: Url
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    guard: Guard = field(default_factory=Guard)
    tls: ssl.SSLContext | None = None
    connect_seconds: float = 5.0
    http2: bool = False
    proxy: Url | None = None
    fixed_lines: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.fixed_lines = header_lines({"host": self.url.authority, **self.headers})


class Request(NamedTuple):
    """One request. `is_fresh` asks for a new connection, whatever the pool holds."""

    route: Route
    headers: Mapping[str, str]
    body: bytes
    method: str = "POST"
    is_fresh: bool = False

    def __repr__(self) -> str:
        return f"<{self.method} {self.route.url.shown}, {len(self.body)} bytes>"  # headers and body may hold secrets


class Timings(NamedTuple):
    """Seconds since the request began: to the connection (None when reused), the first byte and the end."""

    connected: float | None
    first_byte: float | None
    total: float


class Answer(NamedTuple):
    """The receiver answered with a status. `body` is at most 4 KiB; `is_cut` when there is more of it."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_cut: bool
    peer: str | None
    connection_reused: bool
    timings: Timings


class Failure(NamedTuple):
    """The receiver gave no status. `reason` is a short code, `has_answered` whether any byte came."""

    reason: str
    detail: str
    phase: Phase
    has_answered: bool
    peer: str | None
    connection_reused: bool
    timings: Timings

    @property
    def certainty(self) -> Certainty:
        """What is known about the receiver."""
        return self.phase.certainty

    @property
    def is_stale_connection(self) -> bool:
        """Whether a kept connection died before any answer byte: the one case that is repeated at once."""
        return self.connection_reused and not self.has_answered and self.reason == "disconnected"


class Engine(Protocol):
    """Sends one request at a time per call, many calls at once; keeps connections, never cookies.

    Never follows a redirect, reads no environment, checks every address it dials against the route's guard.
    """

    async def exchange(self, request: Request, seconds: float) -> Answer | Failure:
        """Send `request` and return what came of it within `seconds` in all; raises only when cancelled."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


def header_lines(headers: Mapping[str, str]) -> str:
    """Return `headers` as they go out, each with its line break.

    Raises:
        ValueError: one holds what could start another header, or is not ASCII.
    """
    lines = [f"{name}: {value}" for name, value in headers.items()]
    if not ((text := "".join(lines)).isprintable() and text.isascii()):
        raise ValueError("a header has control or other characters than ASCII")
    return "\r\n".join([*lines, ""])
