"""The images of these tests: pulled where a registry can be reached, else made of what Debian and the wheels hold."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PULL_SECONDS = 120
PACKAGES = "ca-certificates,libxml2,python3,python3-pip,python3-venv"
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")


def python_image(environment: dict[str, str]) -> str | None:
    """Return an image with Python, venv and pip; None when none can be pulled or made."""
    if _is_pulled("python:3.13-slim-bookworm", environment):
        return "python:3.13-slim-bookworm"
    if shutil.which("debootstrap") is None:
        return None
    with tempfile.TemporaryDirectory(prefix="outbox-rootfs-") as folder:
        made = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", folder]
        if subprocess.run(made, stdout=subprocess.DEVNULL, check=False).returncode:
            return None
        # the authorities that this machine trusts: pip may reach its index through a proxy that signs for itself
        shutil.copy(AUTHORITIES, Path(folder) / AUTHORITIES.relative_to("/"))
        packed = subprocess.Popen(["tar", "-C", folder, "-c", "."], stdout=subprocess.PIPE)  # noqa: S607
        subprocess.run(
            ["docker", "import", "-", "outbox-test-python"],  # noqa: S607
            stdin=packed.stdout,
            stdout=subprocess.DEVNULL,
            check=True,
            env=environment,
        )
        packed.wait()
    return "outbox-test-python"


def postgres_image(environment: dict[str, str], python: str, binaries: Path) -> str:
    """Return an image that `testcontainers` can use as PostgreSQL."""
    if _is_pulled("postgres:18", environment):
        return "postgres:18"
    build(environment, "outbox-test-postgres", ROOT / "tests/docker/postgres.Dockerfile", binaries, BASE=python)
    return "outbox-test-postgres"


def relay_image(environment: dict[str, str], python: str) -> str:
    """Return the image of deploy/Dockerfile."""
    build(environment, "outbox-test-relay", ROOT / "deploy/Dockerfile", ROOT, PYTHON_IMAGE=python)
    return "outbox-test-relay"


def build(environment: dict[str, str], tag: str, file: Path, context: Path, **arguments: str) -> None:
    """Build `file`; over the network of this machine, whose index pip may need."""
    given = [part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")]
    command = ["docker", "build", "--quiet", "--network", "host", "--tag", tag, "--file", file, *given, context]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)


def _is_pulled(name: str, environment: dict[str, str]) -> bool:
    try:
        done = subprocess.run(
            ["docker", "pull", "--quiet", name],  # noqa: S607
            capture_output=True,
            check=False,
            env=environment,
            timeout=PULL_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
