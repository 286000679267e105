"""The settings of one relay process, checked before anything starts."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

from outbox.durations import format_duration
from outbox.errors import InvalidSettings

__all__ = ["SETTLE_SECONDS", "RelaySettings"]

SETTLE_SECONDS = 2.0
"""What settling may take after a deadline: a lease lasts at least deadline + this."""

LEASE_FLOOR_SECONDS = 30.0
MOST_CONCURRENCY = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """How a relay runs. Durations are seconds; `lease` None means as long as each destination needs.

    Raises:
        InvalidSettings: a number makes no sense; names the option, the number and the remedy.
    """

    dsn: str
    listen_dsn: str | None = None
    concurrency: int = 100
    poll: float = 1.0
    grace: float = 20.0
    lease: float | None = None
    drain: bool = False
    only: frozenset[str] | None = None
    app: tuple[str, ...] = ()
    metrics: str | None = None
    traces: bool = False
    name: str = field(default_factory=socket.gethostname)

    def __post_init__(self) -> None:
        """Refuse numbers that cannot work."""
        if not 1 <= self.concurrency <= MOST_CONCURRENCY:
            raise InvalidSettings(f"--concurrency {self.concurrency}: give 1 to {MOST_CONCURRENCY}")
        if not 0.001 <= self.poll <= 3600:  # noqa: PLR2004 - one millisecond to one hour
            raise InvalidSettings(f"--poll {format_duration(self.poll)}: give 1ms to 1h")
        if self.lease is not None and self.lease <= SETTLE_SECONDS:
            raise InvalidSettings(
                f"--lease {format_duration(self.lease)} leaves no time to send:"
                f" it must outlast the destination's timeout + {format_duration(SETTLE_SECONDS)} for settling"
            )

    def lease_seconds(self, timeout: float, destination: str) -> float:
        """Return how long a claim of `destination` is leased, given its policy's `timeout`.

        Raises:
            InvalidSettings: `--lease` is shorter than the deadline plus settling, so a healthy relay would lose it.
        """
        needed = timeout + SETTLE_SECONDS
        if self.lease is None:
            return max(LEASE_FLOOR_SECONDS, timeout + 5 * SETTLE_SECONDS)
        if self.lease < needed:
            raise InvalidSettings(
                f"--lease {format_duration(self.lease)} is shorter than {format_duration(needed)}, the timeout of"
                f" destination {destination!r} ({format_duration(timeout)}) + {format_duration(SETTLE_SECONDS)} for"
                f" settling; raise --lease or lower policy.timeout"
            )
        return self.lease
