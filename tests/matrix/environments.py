"""A virtual environment for each Python and each age of dependencies, below build/matrix."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.matrix.bounds import lowest

if TYPE_CHECKING:
    from tests.matrix.pythons import Python

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "build" / "matrix"


def prepare(python: Python, dependencies: str) -> Path:
    """Return the Python of an environment with the `newest` or the `oldest` allowed dependencies."""
    folder = FOLDER / f"python{python.version}-{dependencies}"
    program, stamp = folder / "bin" / "python", folder / "installed"
    if not (stamp.exists() and stamp.read_text() == _wanted()):
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python.program, "-m", "venv", folder], check=True)
        _install(program, "--upgrade", "pip>=25.1")
        _install(program, "--editable", ".[demo,httpx]", "--group", "test", *_constraints(folder, dependencies))
        stamp.write_text(_wanted())
    return program


def _constraints(folder: Path, dependencies: str) -> list[str]:
    if dependencies == "newest":  # what pip takes by itself in an empty environment
        return []
    constraints = folder / "lowest.txt"
    constraints.write_text("\n".join(lowest(ROOT / "pyproject.toml")) + "\n")
    return ["--constraint", str(constraints)]


def _install(program: Path, *arguments: str) -> None:
    quiet = ["install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([program, "-m", "pip", *quiet, *arguments], check=True, cwd=ROOT)


def _wanted() -> str:
    """Return what changes when an environment must be made anew."""
    return hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
