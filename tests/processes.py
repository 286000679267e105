"""Real relay processes for tests: started, watched by what they print, stopped by signals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
START_SECONDS = 60.0


class RelayProcess:
    """`python -m relays` with its stderr collected line by line."""

    def __init__(self, dsn: str, *options: str, environment: dict[str, str] | None = None, command=("-m", "relays")):
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self.process = subprocess.Popen(
            [sys.executable, *command, "--dsn", dsn, *options],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},  # noqa: TID251 - handed on to the child, not read
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stderr:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, pattern: str, seconds: float = START_SECONDS) -> str:
        """Return the first line that matches `pattern`, once it is printed."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while True:
                for line in self.lines:
                    if re.search(pattern, line):
                        return line
                left = deadline - time.monotonic()
                if left <= 0 or (self.process.poll() is not None and not self._reader.is_alive()):
                    raise AssertionError(f"no line matches {pattern!r} in:\n{self.output}")
                self._changed.wait(min(left, 0.2))

    def started(self) -> RelayProcess:
        self.wait_for(r"relay \d+ started")
        return self

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self, seconds: float = 60.0) -> int:
        """Send SIGTERM and return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.ended(seconds)

    def ended(self, seconds: float = 60.0) -> int:
        """Return the exit code once the process has ended by itself."""
        code = self.process.wait(seconds)
        self._reader.join(5)
        return code


@contextmanager
def relay_process(dsn: str, *options: str, **arguments):
    """Run a relay for the length of a `with` block; it is killed at the end if still there."""
    relay = RelayProcess(dsn, *options, **arguments)
    try:
        yield relay
    finally:
        if relay.process.poll() is None:
            relay.process.send_signal(signal.SIGCONT)
            relay.process.kill()
            relay.process.wait()
