"""PostgreSQL servers that can crash and come back, and a pair of which one takes over from the other."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

import psycopg

from outbox.embedded import SOCKET_NAME, EmbeddedServer
from tests.servers import SETTINGS
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["CrashingServer", "Pair"]


class CrashingServer(EmbeddedServer):
    """An embedded server that may be down for a while, whoever uses it."""

    def crash(self) -> None:
        """Stop it as a crash does: no session is told, nothing is written that was not yet."""
        if self._is_running():
            self._run("pg_ctl", "-D", self.path, "-m", "immediate", "-w", "stop")

    def recover(self) -> None:
        """Start it again."""
        if not self._is_running():
            self._launch()

    def copy_to(self, standby: CrashingServer) -> None:
        """Make the data directory of a server that follows this one."""
        standby._prepare_folders()
        follow = ["-R", "-X", "stream", "-c", "fast", "-h", self.path, "-p", 5432, "-U", "postgres"]
        self._run("pg_basebackup", "-D", standby.path, *follow)
        (standby.path / f"{SOCKET_NAME}.lock").unlink()  # ours: sockets lie in the data directory

    def promote(self) -> None:
        """Let a server that follows another become one of its own."""
        self._run("pg_ctl", "-D", self.path, "-w", "promote")

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn(), autocommit=True)


class Pair:
    """A primary and a standby that has everything before a commit is acknowledged, while in its `with` block."""

    def __init__(self, folder: Path) -> None:
        self.primary = CrashingServer(folder / "one", settings=SETTINGS)
        self.standby = CrashingServer(folder / "two", settings=SETTINGS)
        self._stack = ExitStack()

    @property
    def dsn(self) -> str:
        """The DSN of whichever of the two is the primary."""
        hosts = f"{self.primary.path},{self.standby.path}"
        return f"host={hosts} port=5432,5432 user=postgres dbname=postgres target_session_attrs=read-write"

    def fail_over(self) -> None:
        """Crash the primary for good, and let the standby take over."""
        self.primary.crash()
        self.standby.promote()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.primary)
            self.primary.copy_to(self.standby)
            stack.enter_context(self.standby)
            with self.primary.connect() as connection:
                connection.execute("alter system set synchronous_standby_names = '*'")
                connection.execute("select pg_reload_conf()")
                wait_until(lambda: connection.execute(IS_FOLLOWED).fetchone()[0], "the standby follows", 60)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_) -> None:
        self._stack.close()


IS_FOLLOWED = "select exists (select from pg_stat_replication where state = 'streaming' and sync_state = 'sync')"
