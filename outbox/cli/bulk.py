"""The options that the bulk commands have in common."""

from __future__ import annotations

import getpass
import os
from datetime import datetime
from typing import Annotated

import typer

from outbox.cli.moments import parse_moment

__all__ = [
    "By",
    "Canary",
    "Destination",
    "DryRun",
    "Events",
    "FailureShare",
    "Limit",
    "Rate",
    "Since",
    "Type",
    "Until",
    "Yes",
    "actor",
]

Destination = Annotated[str | None, typer.Option("--destination", help="Of this destination.")]
Type = Annotated[str | None, typer.Option("--type", help="Of this event type, or order.* for a prefix.")]
Events = Annotated[list[str] | None, typer.Option("--event", help="Of this event; may be repeated.")]
Since = Annotated[
    datetime | None, typer.Option("--since", parser=parse_moment, metavar="TIME", help="Not before, with offset.")
]
Until = Annotated[
    datetime | None, typer.Option("--until", parser=parse_moment, metavar="TIME", help="Before, with offset.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show how many and which.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="At most so many.")]
Rate = Annotated[float | None, typer.Option("--rate", min=0.1, help="At most so many per second.")]
Canary = Annotated[int, typer.Option("--canary", min=0, help="First so many; wait for their outcomes.")]
FailureShare = Annotated[
    float, typer.Option("--failure-share", min=0.0, max=1.0, help="Stop when a larger share fails again.")
]
By = Annotated[str | None, typer.Option("--by", help="Who does this, for the timeline; default: the login name.")]


def actor(by: str | None) -> str:
    """Return who does it; in a container the user may have no name."""
    try:
        return by or getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
