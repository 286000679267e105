"""The command `outbox` as a process, with what it printed and how it ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

SECONDS = 60


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.stdout)

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


def outbox(*arguments: str, dsn: str | None = None, stdin: str | None = None, **environment: str) -> Done:
    """Run `outbox` with `arguments`; `dsn` goes through the environment, as in a container."""
    env = {name: value for name, value in os.environ.items() if name != "OUTBOX_DSN"}  # noqa: TID251 - handed on
    env |= {"COLUMNS": "80", **environment}
    if dsn is not None:
        env["OUTBOX_DSN"] = dsn
    done = subprocess.run(
        [sys.executable, "-m", "outbox", *arguments],
        check=False,
        capture_output=True,
        text=True,
        input=stdin,
        stdin=None if stdin is not None else subprocess.DEVNULL,
        env=env,
        timeout=SECONDS,
    )
    assert "Traceback" not in done.stderr or "--debug" in arguments, done.stderr
    return Done(done.returncode, done.stdout, done.stderr)
