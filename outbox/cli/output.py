"""How results are printed: tables for people, JSON for machines; talk goes to stderr."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from outbox.durations import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["age", "console", "print_json", "print_table", "say", "shown", "table"]

PIPED_WIDTH = 500
ID_WIDTH = 36
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
    """Print one JSON document; times as ISO 8601 to the microsecond."""
    indent = 2 if sys.stdout.isatty() else None
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=indent, default=datetime.isoformat) + "\n")


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Return aligned columns; None is shown as a dash."""
    made = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        made.add_column(
            heading,
            justify="right" if heading in NUMBERS else "left",
            no_wrap=heading in NUMBERS,
            overflow="fold",  # what does not fit goes on in the next line: an id that is cut off cannot be copied
            min_width=ID_WIDTH if heading == "event_id" else None,
        )
    for row in rows:
        made.add_row(*(Text(shown(value)) for value in row))
    return made


def shown(value: object) -> str:
    """Return a value as people read it: None as a dash, a time to the second."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return "-" if value is None else str(value)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print aligned columns."""
    console().print(table(headings, rows))


def age(seconds: float | None) -> str | None:
    """Return a duration as people read it."""
    return None if seconds is None else format_duration(max(seconds, 0.0))
