"""Finds out which destinations have something new when somebody rings, whatever their number."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from relays.sessions import Session
    from relays.targets import Target

__all__ = ["Discovery"]

PROBE_ALL = 64
"""Up to so many destinations, all are probed by the next claim; beyond, the new rows are looked at first."""

SCAN_LIMIT = 5000
OVERLAP = 500
"""Ids looked at again: concurrent commits come a little out of order. What is later still is found by sweeps."""


class Discovery:
    """Walks the primary key of the deliveries behind the last id seen."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._last_id = 0

    async def look(self, targets: Mapping[int, Target]) -> bool:
        """Mark the targets that may have something due; return whether more rows wait to be looked at."""
        if len(targets) <= PROBE_ALL:
            for target in targets.values():
                target.may_have_due = True
            return False
        parameters = {"last_id": self._last_id - OVERLAP, "scan_limit": SCAN_LIMIT}
        recorded = 0
        for row in await self._session.named_rows("discover", parameters):
            recorded += row.recorded
            self._last_id = max(self._last_id, row.last_id)
            found = targets.get(row.destination_id)
            if found is not None:
                found.has_keys = found.has_keys or row.has_keys
                found.due_in(row.next_due_seconds)
                found.wake(time.monotonic())
        return recorded >= SCAN_LIMIT
