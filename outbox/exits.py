"""How a command ends: by itself, or with one line that says what was wrong, and the exit code for it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import psycopg
import typer

from outbox.complaints import complaint
from outbox.errors import OutboxError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["run_command"]


def run_command(name: str, command: Callable[[], object]) -> None:
    """Run `command`; errors that users may meet are one line with cause and remedy, with `--debug` a traceback."""
    try:
        command()
    except (OutboxError, LookupError, psycopg.Error) as error:
        said = complaint(error)
        if said is None or "--debug" in sys.argv:
            raise
        typer.echo(f"{name}: {said[0]}", err=True)
        sys.exit(said[1])
