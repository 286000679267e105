"""Runs several relay processes and restarts those that die, with backoff."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["supervise"]

log = logging.getLogger("relays.supervisor")

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
HEALTHY_SECONDS = 60.0
FINAL_CODES = frozenset({0, 2, 4})
"""Drained or stopped, wrong usage, wrong schema: a restart would end the same way."""


@dataclass(slots=True)
class _Child:
    """One relay process and what is known about its restarts. Times are monotonic seconds."""

    command: list[str]
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    pause_seconds: float = FIRST_PAUSE_SECONDS
    start_at: float = field(default_factory=time.monotonic)
    exit_code: int | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(self.command)  # noqa: S603 - our own command line, no shell
        self.started = time.monotonic()

    def ended(self, code: int) -> None:
        """Plan the restart of a process that died, or remember how it ended for good."""
        self.process = None
        if code in FINAL_CODES:
            self.exit_code = code
            return
        if time.monotonic() - self.started > HEALTHY_SECONDS:
            self.pause_seconds = FIRST_PAUSE_SECONDS
        self.start_at = time.monotonic() + self.pause_seconds
        log.warning("relay process ended with code %d, starting another in %.2g s", code, self.pause_seconds)
        self.pause_seconds = min(self.pause_seconds * 2, LONGEST_PAUSE_SECONDS)


class _Supervisor:
    """The children and the signals that reach them."""

    def __init__(self, commands: Sequence[list[str]]) -> None:
        self.children = [_Child(command) for command in commands]
        self.is_stopping = False

    def forward(self, number: int, _frame: object) -> None:
        """Pass a stop signal on; what is not running then stays down."""
        self.is_stopping = True
        for child in self.children:
            if child.process is not None:
                child.process.send_signal(number)

    def run(self) -> int:
        """Keep the children running until all have ended; return the worst exit code."""
        while any(self._is_needed(child) for child in self.children):
            self._start_due()
            self._reap()
        codes = [child.exit_code for child in self.children if child.exit_code is not None]
        return max(codes, default=0)

    def _is_needed(self, child: _Child) -> bool:
        return child.process is not None or (child.exit_code is None and not self.is_stopping)

    def _start_due(self) -> None:
        for child in self.children:
            is_due = child.process is None and child.exit_code is None and time.monotonic() >= child.start_at
            if is_due and not self.is_stopping:
                child.start()

    def _reap(self) -> None:
        """Wait a moment for a child to end, without polling each of them."""
        signal.sigtimedwait({signal.SIGCHLD}, 0.2)
        for child in self.children:
            code = None if child.process is None else child.process.poll()
            if code is not None:
                child.ended(code)
                if self.is_stopping and child.exit_code is None:
                    child.exit_code = 1


def supervise(processes: int, arguments: Sequence[str]) -> int:
    """Run `processes` relays with the command line `arguments` (without `--processes`); return the exit code."""
    supervisor = _Supervisor(
        [[sys.executable, "-m", "relays", *_for_child(arguments, position)] for position in range(processes)]
    )
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, supervisor.forward)
    log.info("supervising %d relay processes from process %d", processes, os.getpid())
    return supervisor.run()


def _for_child(arguments: Sequence[str], position: int) -> list[str]:
    """Return the command line of child number `position`: one process, and a metrics port of its own."""
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        name, _, value = argument.partition("=")
        if name == "--processes":
            if not value:
                next(rest, None)
        elif name == "--metrics":
            kept += ["--metrics", _shifted(value or next(rest, ""), position)]
        else:
            kept.append(argument)
    return kept


def _shifted(address: str, position: int) -> str:
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + position}" if port.isdigit() else address
