"""Shows what happened in the demo, as tables."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import psycopg
    from rich.console import Console

    from relays.demo.receivers import Mailbox, Receivers
    from relays.demo.shop import Ledger

__all__ = ["show", "show_commands", "show_verdict"]

DELIVERIES = """
    select d.name, d.sink, e.type, a.outcome::text, count(*), coalesce(a.reason, '')
    from outbox.attempts a
    join outbox.destinations d on d.id = a.destination_id
    join outbox.events e on e.id = a.event_id
    group by d.name, d.sink, e.type, a.outcome, a.reason
    order by d.name, a.outcome"""

DEAD = """
    select d.name, e.type, x.attempt, x.reason, coalesce(x.detail, '')
    from outbox.dead_letters x
    join outbox.destinations d on d.id = x.destination_id
    join outbox.events e on e.id = x.event_id"""


def show(
    console: Console, connection: psycopg.Connection[Any], ledger: Ledger, receivers: Receivers, mailbox: Mailbox
) -> None:
    """Print what was recorded, what was attempted, and what the other side saw."""
    _print(
        console,
        "recorded by the shop",
        ["event", "count"],
        [
            ("order.placed, committed", len(ledger.placed)),
            ("mail.receipt, committed", len(ledger.receipts)),
            ("order.cancelled, committed", len(ledger.cancelled)),
            ("rolled back, and therefore never sent", len(ledger.rolled_back)),
        ],
    )
    rows = connection.execute(DELIVERIES).fetchall()
    _print(
        console,
        "attempts, one row for every request",
        ["destination", "sink", "event", "outcome", "count", "reason"],
        rows,
    )
    _print(
        console,
        "seen by the other side",
        ["receiver", "requests", "accepted"],
        [
            ("warehouse: fails twice, then accepts", len(receivers.warehouse), _accepted(receivers.warehouse)),
            ("partner: always fails", len(receivers.partner), _accepted(receivers.partner)),
            ("mail server", len(mailbox.messages), len(mailbox.messages)),
        ],
    )
    dead = connection.execute(DEAD).fetchall()
    _print(
        console,
        "dead letters, kept until redriven or discarded",
        ["destination", "event", "tries", "reason", "detail"],
        dead,
    )


def show_commands(console: Console, dsn: str, event_id: str) -> None:
    """Print the commands that look further into the same data."""
    console.print("[bold]look further[/bold] (the demo's database is kept until the next demo)")
    program = _program()
    for command in ("status", f"status {event_id}", "dead list", "destinations list"):
        console.print(f"  {program} {command} --dsn {dsn}", highlight=False, soft_wrap=True)


def _program() -> str:
    """Return how to call `outbox` from here: by name where the shell finds this one, else by its path."""
    installed = Path(sys.executable).with_name("outbox")
    found = shutil.which("outbox")
    if not installed.exists() or (found is not None and Path(found).samefile(installed)):
        return "outbox"
    return str(installed.relative_to(Path.cwd()) if installed.is_relative_to(Path.cwd()) else installed)


def show_verdict(console: Console, differences: Sequence[str]) -> None:
    """Print whether everything came exactly as expected."""
    if not differences:
        console.print("[bold green]every expected delivery arrived exactly as expected[/bold green]")
        return
    console.print("[bold red]not as expected:[/bold red]")
    for difference in differences:
        console.print(f"  {difference}", highlight=False, soft_wrap=True)


def _accepted(requests: Iterable[Any]) -> int:
    return sum(request.status < 300 for request in requests)  # noqa: PLR2004 - the successful statuses


def _print(console: Console, title: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    table = Table(
        title=title, title_justify="left", title_style="bold", header_style="dim", box=None, padding=(0, 2, 0, 0)
    )
    for heading in headings:
        table.add_column(heading, justify="right" if heading in {"count", "requests", "accepted", "tries"} else "left")
    for row in rows:
        table.add_row(*map(str, row))
    console.print(table)
    console.print()
