"""A world to break: a database, relays, receivers and producers, and a network between them that can fail."""

from __future__ import annotations

import contextlib
import heapq
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psycopg

from outbox.embedded import SOCKET_NAME
from outbox.migrate import migrate
from tests.chaos.cluster import CrashingServer
from tests.chaos.evidence import Evidence
from tests.chaos.fleet import Fleet
from tests.chaos.history import read_history
from tests.chaos.ledger import Ledger
from tests.chaos.moods import Moody
from tests.chaos.plan import Fault, Kind
from tests.chaos.producers import Producers
from tests.chaos.proxy import Proxy
from tests.queues import add_destination
from tests.servers import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["RECEIVERS", "RELAYS", "World"]

RELAYS = 3
ROUTES = {"north": {"order.paid", "order.sent"}, "south": {"order.paid"}}
RECEIVERS = len(ROUTES)
POLICIES: dict[str, dict[str, Any]] = {
    "north": {"schedule": ["0.3s", "0.6s", "1s"], "max_attempts": 1000, "timeout": "2s", "max_in_flight": 8},
    "south": {"schedule": ["0.3s", "0.5s"], "max_attempts": 3, "timeout": "2s", "max_in_flight": 8},
}
SECRET = "whsec_Y2hhb3MtY2hhb3MtY2hhb3MtY2hhb3MtY2hhb3M="
PASSWORD = "chaos-of-the-database"
BACKLOG_LIMIT = 400
"""Producers pause above this many open deliveries, so that a slow machine has no more to drain than a fast one."""

TICK_SECONDS = 0.02
SLOW_SECONDS = 0.15
SAMPLE = 3


class World:
    """Everything there is, while in its `with` block. `injected` counts the faults."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._stack = ExitStack()
        self.ledger = Ledger()
        self.injected: Counter[Kind] = Counter()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            enter = stack.enter_context
            folder = Path(enter(tempfile.TemporaryDirectory(prefix="outbox-chaos-")))
            folder.chmod(0o755)
            self._server = enter(CrashingServer(folder / "pg", settings=SETTINGS))
            self._dsn = self._server.dsn()
            self._moody = [
                Moody(name, self.ledger, self._seed + place, SECRET) for place, name in enumerate(sorted(ROUTES))
            ]
            for moody in self._moody:
                enter(moody.receiver)
            self._to_receivers = [enter(Proxy(("127.0.0.1", moody.receiver.port))) for moody in self._moody]
            self._to_database = [enter(Proxy(str(self._server.path / SOCKET_NAME))) for _ in range(RELAYS)]
            self._install()
            self._fleet = enter(Fleet([self._dsn_through(proxy) for proxy in self._to_database]))
            self._producers = enter(Producers(self._dsn, self.ledger, self._seed))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_) -> None:
        self._stack.close()

    def suffer(self, faults: list[Fault], seconds: float) -> None:
        """Let the faults happen at their times and end, and come back after `seconds`."""
        begun = time.monotonic()
        agenda: list[tuple[float, int, Callable[[], None]]] = []
        for number, fault in enumerate(faults):
            heapq.heappush(agenda, (fault.at, 2 * number, lambda fault=fault: self._begin(fault)))
            heapq.heappush(agenda, (fault.at + fault.seconds, 2 * number + 1, lambda fault=fault: self._end(fault)))
        while (now := time.monotonic() - begun) < seconds or agenda:
            while agenda and agenda[0][0] <= now:
                heapq.heappop(agenda)[2]()
            self._fleet.tend()
            self._watch_backlog()
            time.sleep(TICK_SECONDS)

    def drain(self, seconds: float) -> None:
        """Let everything be well again, record nothing more, and wait until all is delivered or dead.

        Then each relay must show that it works, without the others and without a restart, and end when it is told to.

        Raises:
            AssertionError: something is still open after `seconds`; says what and why.
        """
        self._producers.stop()
        for moody in self._moody:
            moody.recover()
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute(RESUME)  # as an operator does who knows that the receivers are well again
            self._wait_until_drained(connection, seconds)
            for number in range(RELAYS):
                self._call_roll(connection, number, seconds)
        self._fleet.stop()

    def _call_roll(self, connection: psycopg.Connection[Any], number: int, seconds: float) -> None:
        """Let relay `number` alone deliver something."""
        others = [other for other in range(RELAYS) if other != number]
        for other in others:
            self._fleet.stall(other)
        self._producers.record_one(f"roll call of relay {number}")
        self._wait_until_drained(connection, seconds)
        for other in others:
            self._fleet.go_on(other)

    def _wait_until_drained(self, connection: psycopg.Connection[Any], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self._open_count(connection):
            self._fleet.tend()
            if time.monotonic() > deadline:
                raise AssertionError(f"not drained within {seconds:g} s: {self._leftovers(connection)}")
            time.sleep(0.1)

    def evidence(self) -> Evidence:
        """Return what both sides say; of a few events also what the command says."""
        recorded = sorted({row.event_id for row in self.ledger.recorded if row.ending == "committed"})
        sample = recorded[:: max(1, len(recorded) // SAMPLE)]
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            history = read_history(self._dsn, connection, sample)
        tries = {name: policy["max_attempts"] for name, policy in POLICIES.items()}
        return Evidence(self.ledger, history, ROUTES, tries, (SECRET, SECRET[6:], PASSWORD), self._fleet.outputs)

    @property
    def relay_faults(self) -> list[str]:
        """Relays that ended without being told to."""
        return self._fleet.faults

    @property
    def relay_starts(self) -> int:
        return self._fleet.starts

    def _install(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            migrate(connection)
            for moody, proxy in zip(self._moody, self._to_receivers, strict=True):
                settings = {
                    "url": f"http://127.0.0.1:{proxy.port}/hooks",
                    "secret": SECRET,
                    "allow_http": True,
                    "allow_networks": ["127.0.0.0/8"],
                }
                types = sorted(ROUTES[moody.name])
                policy = POLICIES[moody.name]
                add_destination(
                    connection, moody.name, sink="webhook", event_types=types, settings=settings, policy=policy
                )

    def _dsn_through(self, proxy: Proxy) -> str:
        return psycopg.conninfo.make_conninfo(
            self._dsn, host="127.0.0.1", port=proxy.port, password=PASSWORD, connect_timeout=5
        )

    def _begin(self, fault: Fault) -> None:
        self.injected[fault.kind] += 1
        links = self._to_receivers if fault.kind.is_of_receiver else self._to_database
        link = links[fault.target]
        match fault.kind:
            case Kind.RELAY_KILLED:
                self._fleet.kill(fault.target)
            case Kind.RELAY_STALLED:
                self._fleet.stall(fault.target)
            case Kind.RELAY_RESTARTED:
                self._fleet.terminate(fault.target)
            case Kind.DATABASE_CRASHED:
                self._server.crash()
            case Kind.SESSIONS_ENDED:
                self._end_sessions()
            case Kind.DATABASE_RESET | Kind.RECEIVER_RESET:
                link.reset()
            case Kind.DATABASE_SILENT | Kind.RECEIVER_SILENT:
                link.silence()
            case Kind.DATABASE_SLOW | Kind.RECEIVER_SLOW:
                link.slow(SLOW_SECONDS)

    def _end(self, fault: Fault) -> None:
        links = self._to_receivers if fault.kind.is_of_receiver else self._to_database
        match fault.kind:
            case Kind.RELAY_STALLED:
                self._fleet.go_on(fault.target)
            case Kind.DATABASE_CRASHED:
                self._server.recover()
            case Kind.DATABASE_SILENT | Kind.DATABASE_SLOW | Kind.RECEIVER_SILENT | Kind.RECEIVER_SLOW:
                links[fault.target].heal()

    def _end_sessions(self) -> None:
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()")

    def _watch_backlog(self) -> None:
        """Let producers wait while much is open."""
        now = time.monotonic()
        if now < self._backlog_at:
            return
        self._backlog_at = now + 0.5
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self._dsn, autocommit=True) as connection:
            is_much = self._open_count(connection) > BACKLOG_LIMIT
            (self._producers.is_paused.set if is_much else self._producers.is_paused.clear)()

    _backlog_at = 0.0

    def _open_count(self, connection: psycopg.Connection[Any]) -> int:
        return connection.execute("select count(*) from outbox.deliveries").fetchone()[0]

    def _leftovers(self, connection: psycopg.Connection[Any]) -> str:
        rows = connection.execute(
            "select destination_id, event_id::text, key, attempt, interruptions, leased_until::text, due_at::text,"
            " clock_timestamp()::text from outbox.deliveries order by id limit 10"
        ).fetchall()
        tails = "\n".join(output[-3000:] for output in self._fleet.outputs[-RELAYS:])
        return f"{self._open_count(connection)} open, such as {rows}; the relays last said:\n{tails}"


RESUME = (
    "update outbox.destinations set state = 'active', state_reason = null, held_until = null"
    " where state <> 'active' or held_until is not null"
)
