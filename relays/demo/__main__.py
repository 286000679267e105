"""`python -m relays.demo` is `outbox demo`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import Annotated

import typer

from outbox.errors import OutboxError
from relays.demo.extra import require_extra

STOPPED = 130

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
def demo(
    path: Annotated[
        Path | None,
        typer.Option(help="Folder for the demo's database; an earlier demo's is replaced.", show_default=False),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave database, receivers and relay running until Ctrl-C.")
    ] = False,
) -> None:
    """Play a small shop with its receivers and a real relay, and compare what arrived with what should have.

    Ends by itself within 30 s. Exit code 0: every expected delivery arrived exactly as expected; 1: something differs,
    and is listed. The database is kept until the next demo, so that the printed commands work.
    """
    require_extra()
    from outbox.embedded import default_path
    from relays.demo.story import run

    try:
        raise typer.Exit(asyncio.run(run(path or default_path().with_name("demo"), keep=keep)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        typer.echo("outbox demo: stopped; nothing of it is left running", err=True)
        raise typer.Exit(STOPPED) from None


def main() -> None:
    """Run the demo; errors are one line."""
    try:
        app(prog_name="outbox demo")
    except OutboxError as error:
        typer.echo(f"outbox demo: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
