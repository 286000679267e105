"""The Pythons of this machine that the package supports."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SUPPORTED = ("3.11", "3.12", "3.13", "3.14")


@dataclass(frozen=True)
class Python:
    """An interpreter: its version such as `3.12`, and its program."""

    version: str
    program: str

    @property
    def is_open_to_all(self) -> bool:
        """Whether every account may run it: one in somebody's home is closed to the others."""
        return all(folder.stat().st_mode & 0o001 for folder in Path(self.program).resolve().parents)


def running() -> Python:
    """Return the interpreter that runs this, outside its virtual environment."""
    return Python(f"{sys.version_info.major}.{sys.version_info.minor}", sys._base_executable)


def found() -> list[Python]:
    """Return the running interpreter and each other supported `pythonX.Y` that works, oldest first."""
    pythons = {running().version: running()}
    for version in SUPPORTED:
        if version not in pythons and (program := _program(version)):
            pythons[version] = Python(version, program)
    return [pythons[version] for version in SUPPORTED if version in pythons]


def absent() -> list[str]:
    """Return the supported versions that are not on this machine."""
    here = {python.version for python in found()}
    return [version for version in SUPPORTED if version not in here]


def _program(version: str) -> str | None:
    """Return the real program behind `pythonX.Y`, or None: pyenv puts names on the path of versions it has not got."""
    named = shutil.which(f"python{version}")
    if named is None:
        return None
    asked = [named, "-c", "import ensurepip, sys, venv; print(sys.executable)"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False, env=_every_pyenv_version())
    return answer.stdout.strip() if answer.returncode == 0 else None


def _every_pyenv_version() -> dict[str, str]:
    """Return the environment in which pyenv's programs, where there are any, answer for each installed version."""
    environment = dict(os.environ)  # noqa: TID251 - handed on, not read
    if shutil.which("pyenv"):
        listed = subprocess.run(["pyenv", "versions", "--bare"], capture_output=True, text=True, check=False)  # noqa: S607
        environment["PYENV_VERSION"] = ":".join(listed.stdout.split())
    return environment
