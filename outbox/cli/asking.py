"""Asks before something is changed that many would miss."""

from __future__ import annotations

import sys

import typer

from outbox.errors import UsageError

__all__ = ["ask"]


def ask(what: str, *, yes: bool) -> None:
    """Ask whether to do `what`, unless `yes`.

    Raises:
        UsageError: there is nobody to ask.
        typer.Exit: the answer was no; with exit code 1.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"nobody to ask here; add --yes to {what}")
    if not typer.confirm(f"{what}?", err=True):
        raise typer.Exit(1)
