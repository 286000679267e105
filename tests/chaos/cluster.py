"""PostgreSQL servers that can crash, and come back."""

from __future__ import annotations

from outbox.embedded import EmbeddedServer

__all__ = ["CrashingServer"]


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
