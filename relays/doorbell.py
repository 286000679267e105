"""The doorbell: how a sleeping relay hears of a commit within milliseconds (DESIGN: section 5).

NOTIFY takes a database-wide lock at commit, so recorders only notify when somebody sleeps: an idle relay holds a
*shared* session advisory lock while it sleeps, and a recorder that finds the lock free does not notify.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

import psycopg

from outbox.database import aconnect
from outbox.errors import DatabaseUnreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

__all__ = ["CHANNEL", "Doorbell", "hears"]

log = logging.getLogger("relays.doorbell")

CLASS_ID, KEY_ID, CHANNEL = 1330205760, 0, "outbox"
ARM = f"select pg_try_advisory_lock_shared({CLASS_ID}, {KEY_ID})"
DISARM = f"select pg_advisory_unlock_shared({CLASS_ID}, {KEY_ID})"
ANSWER_SECONDS = 1.0
CHECK_SECONDS = 30.0
SHORTEST_RETRY_SECONDS = 0.5
LONGEST_RETRY_SECONDS = 30.0


async def hears(connection: psycopg.AsyncConnection[Any], ring_dsn: str) -> bool:
    """Tell whether `connection`, which listens, hears a ring from a session on `ring_dsn`.

    Behind a transaction pooler it does not: the server session that listens is then anybody's. The wait runs no
    statement, since with one the listening connection might be handed that very session.
    """
    async with await aconnect(ring_dsn, application_name="outbox-relay ring", prepare_threshold=None) as other:
        await other.execute(f"select pg_notify('{CHANNEL}', '')")
        async for _ in connection.notifies(timeout=ANSWER_SECONDS, stop_after=1):
            return True
    return False


class Doorbell:
    """A listening connection; `rung()` is called when a recorder rings.

    Where it cannot listen (a dead connection, a transaction pooler in between) it is not available, never arms, and
    the relay polls. `keep()` runs beside the relay's cycle: it proves every half minute that a ring still comes back
    (a silent connection looks alive) and reopens what broke, so that none of this delays a claim.
    """

    def __init__(self, dsn: str, ring_dsn: str, rung: Callable[[], None]) -> None:
        self._dsn = dsn
        self._ring_dsn = ring_dsn
        self._rung = rung
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._one_at_a_time = asyncio.Lock()
        self._is_armed = False
        self._was_lost = False
        self._lost = asyncio.Event()

    @property
    def is_available(self) -> bool:
        """Whether the relay can sleep and be woken, or must poll."""
        return self._connection is not None

    async def open(self) -> bool:
        """Connect and listen; return whether a ring sent from this session came back."""
        async with self._one_at_a_time, self._losing_it():
            connection = await aconnect(
                self._dsn, application_name="outbox-relay doorbell", keepalives_idle=10, keepalives_interval=5
            )
            self._connection = connection
            await connection.execute(f"listen {CHANNEL}")
            await self._ring(connection)
            connection.add_notify_handler(self._notified)
            self._lost.clear()
        return self.is_available

    async def keep(self) -> None:
        """Check and reopen, for ever."""
        retry_seconds = SHORTEST_RETRY_SECONDS
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._lost.wait(), CHECK_SECONDS)
            if self.is_available:
                await self._check()
                continue
            await asyncio.sleep(retry_seconds)
            if await self.open():
                log.warning("doorbell is back: commits wake the relay again")
                self._was_lost = False
                retry_seconds = SHORTEST_RETRY_SECONDS
            else:
                retry_seconds = min(retry_seconds * 2, LONGEST_RETRY_SECONDS)

    async def _check(self) -> None:
        async with self._one_at_a_time, self._losing_it():
            if self._connection is not None:
                self._unwatch(self._connection)
                self._connection.remove_notify_handler(self._notified)  # the driver allows one way to hear at a time
                await self._ring(self._connection)
                self._connection.add_notify_handler(self._notified)
                self._hear()  # a recorder may have rung meanwhile
                if self._is_armed:
                    self._watch(self._connection)

    async def _ring(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Ring from another session, and wait without a statement: only a session of our own hears that."""
        if not await hears(connection, self._ring_dsn):
            raise TimeoutError

    async def arm(self) -> bool:
        """Say that this relay sleeps, unless it has; return whether it is armed only now."""
        if self._connection is None or self._is_armed or self._one_at_a_time.locked():
            return False
        async with self._one_at_a_time, self._losing_it():
            connection = self._connection
            row = await (await connection.execute(ARM)).fetchone()
            self._is_armed = bool(row and row[0])
            if self._is_armed:
                self._watch(connection)
        return self._is_armed

    async def disarm(self) -> None:
        """Say that this relay is awake: recorders stop ringing."""
        if not self._is_armed:
            return
        self._is_armed = False
        async with self._one_at_a_time, self._losing_it():
            if self._connection is not None:
                self._unwatch(self._connection)
                await self._connection.execute(DISARM)

    @contextlib.asynccontextmanager
    async def _losing_it(self) -> AsyncIterator[None]:
        """Turn any failure, silence included, into polling; say so once."""
        try:
            async with asyncio.timeout(2 * ANSWER_SECONDS):
                yield
        except TimeoutError:
            await self._lose("a ring did not come back")
        except (psycopg.Error, DatabaseUnreachable, OSError) as error:
            await self._lose(str(error).strip() or type(error).__name__)

    async def _lose(self, reason: str) -> None:
        await self.close()
        self._lost.set()
        if not self._was_lost:
            self._was_lost = True
            log.warning(
                "no doorbell (%s), polling instead; through a transaction pooler give a direct DSN with --listen-dsn",
                reason,
            )

    def _watch(self, connection: psycopg.AsyncConnection[Any]) -> None:
        # before the socket is watched: a broken connection is closed by this, and a closed socket that is watched would
        # let uvloop abort the process
        connection.pgconn.consume_input()
        asyncio.get_running_loop().add_reader(connection.fileno(), self._readable)
        # a ring that the driver read together with the answer to ARM would make no socket readable
        if connection.pgconn.notifies() is not None:
            self._hear()

    def _unwatch(self, connection: psycopg.AsyncConnection[Any]) -> None:
        with contextlib.suppress(psycopg.Error):  # the descriptor of a broken connection is gone
            asyncio.get_running_loop().remove_reader(connection.fileno())

    def _readable(self) -> None:
        """Wake the relay once; it disarms, which reads what came."""
        if self._connection is not None:
            self._unwatch(self._connection)
        self._hear()

    def _notified(self, _notification: psycopg.Notify) -> None:
        self._hear()

    def _hear(self) -> None:
        self._rung()

    async def close(self) -> None:
        """Close the connection; the lock goes with it."""
        connection, self._connection = self._connection, None
        self._is_armed = False
        if connection is not None:
            self._unwatch(connection)
            with contextlib.suppress(psycopg.Error, OSError):
                await connection.close()
