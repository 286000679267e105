"""The server's clock, as far as a relay can know it between two readings (promise database-time)."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

__all__ = ["ServerClock"]


class ServerClock:
    """Tells the server's time from its last reading and the monotonic clock, never from the relay's own clock."""

    def __init__(self) -> None:
        self._read_at = time.monotonic()
        self._server = datetime.now(UTC)

    def set(self, server_now: datetime) -> None:
        """Take a reading of the server's clock."""
        self._read_at = time.monotonic()
        self._server = server_now

    def now(self) -> datetime:
        """Return the server's time, give or take the round trip of the last reading."""
        return self._server + timedelta(seconds=time.monotonic() - self._read_at)

    def age_seconds(self, moment: datetime) -> float:
        """Return how long ago `moment` was."""
        return (self.now() - moment).total_seconds()
