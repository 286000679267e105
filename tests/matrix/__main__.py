"""`make matrix`: the tests on each PostgreSQL, each Python found here, and the oldest dependencies allowed.

    python -m tests.matrix [--short] [--tests PATH ...]

`--short` is what CI runs: the SQL on PostgreSQL 14 and 16, and the newest other Python, if there is one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from tests.matrix import pythons
from tests.matrix.environments import ROOT, prepare

if TYPE_CHECKING:
    from tests.matrix.pythons import Python

# What touches SQL most, and a relay that delivers.
SHORT = [f"tests/db/test_{name}.py" for name in ("claims", "settle", "sweeps", "record_sql", "migrate", "plans")]
SHORT += ["tests/relay/test_relay_delivers.py"]
FULL = ["tests/unit", "tests/db", "tests/relay"]
POSTGRES = ("14", "15", "16", "17", "18")


@dataclass(frozen=True)
class Line:
    """One combination of versions and what is run on it."""

    python: Python
    dependencies: str
    postgres: str
    tests: list[str]


def main() -> int:
    arguments = parsed()
    lines = short() if arguments.short else full(arguments.tests)
    if absent := pythons.absent():
        print(f"matrix: not on this machine, so not run: Python {', '.join(absent)}")
    table = Table("Python", "dependencies", "PostgreSQL", "result", "seconds")
    failed = False
    for line in lines:
        began = time.monotonic()
        code, summary = run(line)
        failed |= code != 0
        print(f"matrix: Python {line.python.version}, {line.dependencies}, PostgreSQL {line.postgres}: {summary}")
        seconds = f"{time.monotonic() - began:.0f}"
        table.add_row(line.python.version, line.dependencies, line.postgres, summary, seconds)
    Console(width=120).print(table)
    return int(failed)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="what CI runs")
    parser.add_argument("--tests", nargs="+", default=FULL, metavar="PATH", help="default: unit, db and relay")
    return parser.parse_args()


def full(tests: list[str]) -> list[Line]:
    """Return each PostgreSQL with this Python, each other Python, and the oldest dependencies at both ends."""
    ours, all_pythons = pythons.running(), pythons.found()
    lines = [Line(ours, "newest", postgres, tests) for postgres in POSTGRES]
    lines += [Line(python, "newest", POSTGRES[-1], tests) for python in all_pythons if python != ours]
    lines += [Line(all_pythons[0], "oldest", POSTGRES[0], tests)]
    return lines


def short() -> list[Line]:
    """Return what fits into two minutes."""
    ours = pythons.running()
    others = [python for python in pythons.found() if python != ours]
    lines = [Line(ours, "newest", postgres, SHORT) for postgres in ("14", "16")]
    return lines + [Line(python, "newest", POSTGRES[-1], ["tests/unit", SHORT[-1]]) for python in others[-1:]]


def run(line: Line) -> tuple[int, str]:
    """Run one combination; return pytest's exit code and its last line, after showing all of it if it failed."""
    program = sys.executable if is_ours(line) else prepare(line.python, line.dependencies)
    command = [program, "-m", "pytest", "-n", "4", "--dist", "worksteal", "-q", f"--postgres={line.postgres}"]
    if not line.python.is_open_to_all:  # no other account can start it, which these tests do
        command.append("--ignore=tests/unit/test_embedded.py")
    done = subprocess.run([*command, *line.tests], capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n")
    last = (done.stdout.strip() or done.stderr.strip() or "no output").splitlines()[-1]
    return done.returncode, last.strip("= ")


def is_ours(line: Line) -> bool:
    """Say whether the environment that runs this is the one of the line."""
    return line.python == pythons.running() and line.dependencies == "newest"


if __name__ == "__main__":
    sys.exit(main())
