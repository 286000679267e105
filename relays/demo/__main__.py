"""`python -m relays.demo` is `outbox demo`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import Annotated

import typer
from rich.console import Console

from outbox.errors import OutboxError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
def demo(
    path: Annotated[
        Path | None,
        typer.Option(help="Where the demo's database is put; what is there is replaced.", show_default=False),
    ] = None,
) -> None:
    """Play a small shop with its receivers and a real relay, and compare what happened with what should have."""
    from relays.demo.story import run

    raise typer.Exit(asyncio.run(run(Console(), path)))


def main() -> None:
    """Run the demo; errors are one line."""
    try:
        app()
    except OutboxError as error:
        typer.echo(f"outbox demo: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
