"""What one relay may use of a limit of the whole fleet. Pure, no I/O.

Relays that serve a destination are ranked by their ids, 0 first. Each computes its own share from the same list, so
that shares add up to the limit without a word between them. A relay that joins or leaves is noticed by the others
within a heartbeat; until then the sum may be off by its share.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TokenBucket", "in_flight_share", "rate_share"]

BURST_SECONDS = 1.0
"""After a pause a destination gets at most what its rate allows in this time, at once."""


def in_flight_share(limit: int, relays: int, rank: int) -> int:
    """Return how many of `limit` in flight are this relay's, of `relays` that serve the destination."""
    return limit // relays + (rank < limit % relays)


def rate_share(rate_per_second: float, relays: int, rank: int) -> float:
    """Return the part of a rate that is this relay's.

    Slower than one a second and relay, the rate is shared by fewer relays, at least one: a bucket holds one token
    at least, and every relay's would add to the burst.
    """
    sharing = max(1, min(relays, int(rate_per_second * BURST_SECONDS)))
    return rate_per_second / sharing if rank < sharing else 0.0


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """Deliveries that may be claimed at `at` (monotonic seconds), at `rate` per second."""

    rate: float
    tokens: float
    at: float

    @classmethod
    def full(cls, rate: float, now: float) -> TokenBucket:
        """Return a bucket with a burst in it."""
        return cls(rate, _size(rate), now)

    def refilled(self, now: float, rate: float | None = None) -> TokenBucket:
        """Return the bucket at `now`, from here on with another `rate` if the share changed."""
        tokens = self.tokens + max(now - self.at, 0.0) * self.rate
        rate = self.rate if rate is None else rate
        return TokenBucket(rate, min(tokens, _size(rate)), max(now, self.at))

    def taken(self, count: int) -> TokenBucket:
        """Return the bucket with `count` tokens less; at most `available` may be taken."""
        return TokenBucket(self.rate, self.tokens - count, self.at)

    @property
    def available(self) -> int:
        """How many deliveries may be claimed."""
        return int(self.tokens + 1e-9)

    @property
    def wait_seconds(self) -> float | None:
        """Seconds until the next one may be claimed, 0 when now; None when this relay has no share of the rate."""
        if self.available:
            return 0.0
        return (1.0 - self.tokens) / self.rate if self.rate > 0 else None


def _size(rate: float) -> float:
    return max(rate * BURST_SECONDS, 1.0) if rate > 0 else 0.0
