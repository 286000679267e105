"""Parks destinations when an answer asks for it (promise held-not-lost): here at once, and in the database for all."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg

from outbox.errors import DatabaseUnreachable
from outbox.model import DestinationState

if TYPE_CHECKING:
    from relays.results import Hold
    from relays.sessions import Session
    from relays.targets import Target

__all__ = ["Holds"]

log = logging.getLogger("relays.holds")

SAME_SECONDS = 1.0
"""A hold that ends within this of the present one says nothing new: no write."""


class Holds:
    """Applies the holds that results ask for."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._writing: set[asyncio.Task[None]] = set()

    def apply(self, target: Target, hold: Hold) -> None:
        """Claim nothing more for `target`, and tell the other relays."""
        if not target.is_open(time.monotonic()) and not self._is_longer(target, hold):
            return
        if hold.seconds is not None:
            target.held_until = max(target.held_until, time.monotonic() + hold.seconds)
        if hold.state != "held":
            target.destination = replace(target.destination, state=DestinationState(hold.state))
        log.warning(
            "destination %s is %s%s: %s",
            target.destination.name,
            hold.state,
            f" for {hold.seconds:.3g} s" if hold.seconds is not None else "",
            hold.reason,
        )
        task = asyncio.get_running_loop().create_task(self._write(target, hold))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    def _is_longer(self, target: Target, hold: Hold) -> bool:
        is_new_state = hold.state not in {"held", target.destination.state.value}
        ends = time.monotonic() + (hold.seconds or 0.0)
        return is_new_state or ends > target.held_until + SAME_SECONDS

    async def _write(self, target: Target, hold: Hold) -> None:
        parameters = {
            "destination_id": target.destination.id,
            "state": hold.state,
            "reason": hold.reason,
            "seconds": hold.seconds,
        }
        try:
            await self._session.execute("hold_destination", parameters)
        except (psycopg.Error, DatabaseUnreachable, OSError) as error:
            # this relay holds it anyway; the others learn from their own attempts
            log.warning("hold of destination %s not stored: %s", target.destination.name, str(error).strip())
