"""Shows what happened in the demo, as tables, and where to look further."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from outbox.cli.output import console

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from relays.demo.books import Attempt, Books
    from relays.demo.comparison import Check
    from relays.demo.shop import Ledger

__all__ = ["show", "show_commands", "show_invitation"]

TEXTS = frozenset({"event", "destination", "sink", "answers", "reason", "detail", "compared"})
"""Columns of words; all others are numbers."""


def show(ledger: Ledger, books: Books, checks: Sequence[Check]) -> None:
    """Print what was recorded, what became of it, and whether it is what should have become of it."""
    console().print()
    _print("What the shop recorded", ["event", "committed", "rolled back, so never sent"], _recorded(ledger))
    headings = ["destination", "sink", "deliveries", "delivered", "dead", "attempts", "answers"]
    _print("What became of it", headings, _outcomes(books))
    dead = [(one.destination, one.type, one.tries, one.reason, one.detail or "") for one in books.dead]
    _print(
        "What could not be delivered: kept until redriven or discarded",
        ["destination", "event", "tries", "reason", "detail"],
        dead,
    )
    compared = [(check.claim, check.expected.total(), _found(check)) for check in checks]
    _print("What it should be", ["compared", "expected", "found"], compared)
    _verdict(checks)


def show_commands(folder: Path, books: Books) -> None:
    """Print the commands that look further into the same data."""
    story = [f"status {one.event_id}" for one in books.dead[:1]]
    console().print("\nLook further; the database is kept until the next demo:", style="bold")
    _commands(folder, ["status", *story, "dead list", "doctor"])


def show_invitation(folder: Path) -> None:
    """Print what can be tried while everything runs on."""
    console().print(
        "\nEverything runs on until Ctrl-C. The partner is repaired; in another terminal, try:", style="bold"
    )
    _commands(
        folder, ["dead redrive --destination partner --yes", """record order.cancelled '{"order_id": 2}'""", "status"]
    )
    sys.stdout.flush()


def _recorded(ledger: Ledger) -> list[tuple[str, int, int]]:
    committed = Counter(event.type for event in ledger.committed)
    rolled_back = Counter(event.type for event in ledger.rolled_back)
    return [(name, committed[name], rolled_back[name]) for name in committed | rolled_back]


def _outcomes(books: Books) -> list[tuple[str, str, int, int, int, int, str]]:
    """Return one row for each destination."""
    rows = []
    for name, sink in sorted({(one.destination, one.sink) for one in books.attempts}):
        attempts = [one for one in books.attempts if one.destination == name]
        outcomes = Counter(one.outcome for one in attempts)
        deliveries = len({one.event_id for one in attempts})
        rows.append(
            (name, sink, deliveries, outcomes["delivered"], outcomes["dead"], len(attempts), _answers(attempts))
        )
    return rows


def _answers(attempts: Iterable[Attempt]) -> str:
    """Return how often the other side answered what, as `2 x 503, 4 x 200`."""
    answers = Counter(one.status for one in attempts if one.status is not None)
    return ", ".join(f"{count} x {status}" for status, count in answers.items()) or "-"


def _found(check: Check) -> Text:
    return Text(str(check.found.total()), style="green" if check.is_met else "bold red")


def _verdict(checks: Sequence[Check]) -> None:
    differences = [difference for check in checks for difference in check.differences]
    if not differences:
        console().print("every expected delivery arrived exactly as expected", style="bold green")
        return
    console().print(f"not as expected, in {len(differences)} ways:", style="bold red")
    for difference in differences:
        console().print(f"  {difference}", soft_wrap=True)


def _commands(folder: Path, commands: Iterable[str]) -> None:
    program, dsn = shlex.quote(_program()), shlex.quote(f"embedded:{folder}")
    for command in commands:
        console().print(f"  {program} {command} --dsn {dsn}", soft_wrap=True, markup=False)


def _program() -> str:
    """Return how to call `outbox` from here: by name where the shell finds this one, else by its path."""
    installed = Path(sys.executable).with_name("outbox")
    found = shutil.which("outbox")
    if not installed.exists() or (found is not None and Path(found).samefile(installed)):
        return "outbox"
    return str(installed.relative_to(Path.cwd()) if installed.is_relative_to(Path.cwd()) else installed)


def _print(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    table = Table(
        title=title, title_justify="left", title_style="bold", header_style="dim", box=None, padding=(0, 2, 0, 0)
    )
    for heading in headings:
        table.add_column(heading, justify="left" if heading in TEXTS else "right")
    for row in rows:
        table.add_row(*(value if isinstance(value, Text) else Text(str(value)) for value in row))
    console().print(table)
    console().print()
