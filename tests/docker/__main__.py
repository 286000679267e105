"""`make docker`: the tests on a PostgreSQL in a container, and the image of deploy/Dockerfile at work.

Where there is no engine, or no image can be had, it says so and ends with 0: that is the machine, not the code.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.docker.engine import engine
from tests.docker.images import ROOT, postgres_image, python_image, relay_image
from tests.servers import unpacked_binaries

SELECTION = ["tests/db/test_claims.py", "tests/db/test_settle.py", "tests/relay/test_relay_delivers.py", "tests/docker"]


class Drafts:
    """Folders for what is unpacked, as pytest's `tmp_path_factory` gives them."""

    def mktemp(self, name: str) -> Path:
        return Path(tempfile.mkdtemp(prefix=f"outbox-{name}-"))


def main() -> int:
    with engine() as environment:
        if environment is None:
            print("docker: no engine, not run")
            return 0
        python = python_image(environment)
        if python is None:
            print("docker: no image with Python can be pulled or made, not run")
            return 0
        if not has_index(environment, python):
            print("docker: no package index from within a container, not run")
            return 0
        return run(environment, python)


def has_index(environment: dict[str, str], python: str) -> bool:
    """Say whether pip finds packages in a container, which the image of deploy/Dockerfile is made of."""
    asked = [
        "docker",
        "run",
        "--rm",
        "--network",
        "host",
        python,
        "python3",
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
    ]
    done = subprocess.run([*asked, "--dest", "/tmp", "idna"], capture_output=True, check=False, env=environment)  # noqa: S108
    return done.returncode == 0


def run(environment: dict[str, str], python: str) -> int:
    postgres = postgres_image(environment, python, unpacked_binaries("18", Drafts()))
    environment |= {
        "OUTBOX_TEST_POSTGRES_IMAGE": postgres,
        "OUTBOX_TEST_RELAY_IMAGE": relay_image(environment, python),
        "TESTCONTAINERS_RYUK_DISABLED": "true",  # an image of its own that would have to be pulled
    }
    command = [sys.executable, "-m", "pytest", "-q", "--postgres=testcontainers", *SELECTION]
    return subprocess.run(command, check=False, cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
