"""How results are printed: tables for people, JSON for machines; talk goes to stderr."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from outbox.durations import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["age", "console", "print_json", "print_table", "say", "table"]

PIPED_WIDTH = 500
NUMBERS = frozenset(
    {
        "waiting",
        "scheduled",
        "leased",
        "held",
        "blocked",
        "dead",
        "in flight",
        "attempt",
        "ms",
        "delivered/h",
        "failed/h",
    }
)


def console() -> Console:
    """Return the console for stdout: colours on a terminal only, and lines as long as they need where nobody looks."""
    return Console(width=None if sys.stdout.isatty() else PIPED_WIDTH, highlight=False)


def say(message: str) -> None:
    """Tell the person at the terminal something that is no result."""
    sys.stderr.write(f"{message}\n")


def print_json(value: Any) -> None:
    """Print one JSON document."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None) + "\n")


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Return aligned columns; None is shown as a dash."""
    made = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        made.add_column(heading, justify="right" if heading in NUMBERS else "left", no_wrap=heading in NUMBERS)
    for row in rows:
        made.add_row(*(Text("-" if value is None else str(value)) for value in row))
    return made


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print aligned columns."""
    console().print(table(headings, rows))


def age(seconds: float | None) -> str | None:
    """Return a duration as people read it."""
    return None if seconds is None else format_duration(max(seconds, 0.0))
