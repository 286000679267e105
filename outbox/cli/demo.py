"""`outbox demo`."""

from __future__ import annotations

import subprocess
import sys

import typer

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(demo)


def demo(context: typer.Context) -> None:
    """Play a small shop with its receivers and a real relay, and compare what happened with what should have.

    Needs the extra `demo`: pip install 'outbox-relay[demo]'. Takes --path FOLDER for its database.
    """
    command = [sys.executable, "-m", "relays.demo", *context.args]
    raise typer.Exit(subprocess.run(command, check=False).returncode)  # noqa: S603 - our own module, no shell
