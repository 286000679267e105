"""A virtual environment for each Python and each age of dependencies, below build/matrix."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.matrix.pythons import Python

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "build" / "matrix"
# pip knows no way to the oldest versions; uv also finds the lowest bound that another package needs higher than we do.
RESOLUTION = {"newest": "highest", "oldest": "lowest-direct"}


def prepare(python: Python, dependencies: str) -> Path:
    """Return the Python of an environment with the `newest` or the `oldest` allowed dependencies."""
    folder = FOLDER / f"python{python.version}-{dependencies}"
    program, stamp = folder / "bin" / "python", folder / "installed"
    if not (stamp.exists() and stamp.read_text() == _wanted()):
        shutil.rmtree(folder, ignore_errors=True)
        _uv("venv", "--seed", "--python", python.program, folder)
        wanted = ["--resolution", RESOLUTION[dependencies], "--editable", ".[demo,httpx]", "--group", "test"]
        # compiled as by pip: a relay that compiles what it imports spends the time of its first attempts on it
        _uv("pip", "install", "--compile-bytecode", "--python", program, *wanted)
        stamp.write_text(_wanted())
    return program


def _uv(*arguments: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "uv", "--quiet", *arguments], check=True, cwd=ROOT)


def _wanted() -> str:
    """Return what changes when an environment must be made anew."""
    return hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
