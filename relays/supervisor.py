"""Runs several relay processes and restarts those that die, with backoff."""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
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
REAP_SECONDS = 0.2
FINAL_CODES = frozenset({0, 2, 4})
"""Drained or stopped, wrong usage, wrong schema: a restart would end the same way."""

STOPPED_AT_START = {-signal.SIGTERM, -signal.SIGINT, 128 + signal.SIGINT}
"""How a relay ends that is stopped before it listens for signals: nothing was claimed yet."""


@dataclass(slots=True)
class _Child:
    """One relay process and what is known about its restarts. Times are monotonic seconds."""

    command: list[str]
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    pause_seconds: float = FIRST_PAUSE_SECONDS
    start_at: float = field(default_factory=time.monotonic)
    exit_code: int | None = None
    is_told: bool = False

    def start(self) -> None:
        self.process = subprocess.Popen(self.command)  # noqa: S603 - our own command line, no shell
        self.started = time.monotonic()

    def tell(self) -> None:
        """Stop the process, if there is one; SIGTERM ends it quietly also while Python still starts."""
        if self.process is not None:
            self.is_told = True
            self.process.terminate()

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
        self._woken, self._waker = socket.socketpair()

    def forward(self, _number: int, _frame: object) -> None:
        """Pass a stop signal on; what is not running then stays down."""
        self.is_stopping = True
        for child in self.children:
            child.tell()

    def listen(self) -> None:
        """Take the signals that matter; any of them ends a wait.

        None is blocked: the relays would inherit that, and a loop that never hears SIGCHLD waits for ever for the
        processes that handlers start.
        """
        for end in (self._woken, self._waker):
            end.setblocking(False)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.forward)

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
                self._tell_late(child)

    def _tell_late(self, child: _Child) -> None:
        """Stop a child that was being started when the signal came."""
        if self.is_stopping and not child.is_told:
            child.tell()

    def _reap(self) -> None:
        """Wait a moment for a child to end, without polling each of them."""
        if select.select([self._woken], [], [], REAP_SECONDS)[0]:
            self._woken.recv(4096)
        for child in self.children:
            code = None if child.process is None else child.process.poll()
            if code is None:
                continue
            if self.is_stopping and code not in FINAL_CODES:
                log.info("relay process ended with code %d while stopping", code)
                child.process, child.exit_code = None, 0 if code in STOPPED_AT_START else 1
            else:
                child.ended(code)


def supervise(processes: int, arguments: Sequence[str]) -> int:
    """Run `processes` relays with the command line `arguments` (without `--processes`); return the exit code."""
    supervisor = _Supervisor(
        [[sys.executable, "-m", "relays", *_for_child(arguments, position)] for position in range(processes)]
    )
    supervisor.listen()
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
