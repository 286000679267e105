"""A Docker engine: the one that runs here, else one of our own for as long as it is needed, else none."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

START_SECONDS = 60.0


@contextmanager
def engine() -> Iterator[dict[str, str] | None]:
    """Give the environment in which `docker` reaches an engine, or None when there is none and none can be started."""
    environment = dict(os.environ)  # noqa: TID251 - handed on, not read
    if answers(environment):
        yield environment
    elif shutil.which("docker") is None or shutil.which("dockerd") is None or os.geteuid() != 0:
        yield None
    else:
        with tempfile.TemporaryDirectory(prefix="outbox-docker-", ignore_cleanup_errors=True) as folder:
            environment["DOCKER_HOST"] = f"unix://{folder}/docker.sock"
            with _started(Path(folder)):
                yield environment if _answers_in_time(environment) else None


def answers(environment: dict[str, str]) -> bool:
    """Say whether an engine answers."""
    if shutil.which("docker") is None:
        return False
    asked = ["docker", "info", "--format", "{{.ServerVersion}}"]
    done = subprocess.run(asked, capture_output=True, check=False, env=environment)
    return done.returncode == 0


def _answers_in_time(environment: dict[str, str]) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if answers(environment):
            return True
        time.sleep(0.5)
    return False


@contextmanager
def _started(folder: Path) -> Iterator[None]:
    """Run `dockerd` with all it writes below `folder`; without iptables it works inside a container, too."""
    options = ["--host", f"unix://{folder}/docker.sock", "--pidfile", folder / "pid", "--iptables=false"]
    options += ["--data-root", folder / "data", "--exec-root", folder / "exec"]
    with (folder / "log").open("wb") as log, subprocess.Popen(["dockerd", *options], stdout=log, stderr=log) as daemon:  # noqa: S607
        try:
            yield
        finally:
            daemon.terminate()
