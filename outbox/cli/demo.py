"""`outbox demo`."""

from __future__ import annotations

import os
import sys

import typer

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})(
        demo
    )


def demo(context: typer.Context) -> None:
    """Play a small shop with its receivers and a real relay, and compare what arrived with what should have.

    Needs the extra `demo`: pip install 'outbox-relay[demo]'.
    """
    # In place of this process, so that Ctrl-C and signals reach the demo, which stops what it started. -P: a folder
    # `relays` where the user stands is not ours.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "relays.demo", *context.args])  # noqa: S606 - no shell
