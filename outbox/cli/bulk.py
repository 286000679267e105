"""What the bulk commands have in common: show first, ask, then work with a progress bar."""

from __future__ import annotations

import getpass
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from outbox.cli.output import print_table, say
from outbox.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
    "confirm",
    "progress",
]

SAMPLES = 5
_TIMES = ["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M%z", "%Y-%m-%d %H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z"]

Destination = Annotated[str | None, typer.Option("--destination", help="Of this destination.")]
Type = Annotated[str | None, typer.Option("--type", help="Of this event type, or order.* for a prefix.")]
Events = Annotated[list[str] | None, typer.Option("--event", help="Of this event; may be repeated.")]
Since = Annotated[datetime | None, typer.Option("--since", formats=_TIMES, help="Not before, with offset.")]
Until = Annotated[datetime | None, typer.Option("--until", formats=_TIMES, help="Before, with offset.")]
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
    """Return who does it."""
    return by or getpass.getuser()


def confirm(
    verb: str, count: int, samples: Sequence[dict[str, Any]], *, limit: int | None, yes: bool, dry_run: bool
) -> None:
    """Show how many and which, and ask; without a terminal `--yes` is required.

    Raises:
        UsageError: there is nobody to ask and `--yes` is not given.
        typer.Exit: nothing matches, it is a dry run, or the answer was no.
    """
    if not count:
        say(f"nothing to {verb}: no delivery matches")
        raise typer.Exit(0)
    say(f"{count:,} deliveries match; {'all' if count <= SAMPLES else f'the first {SAMPLES}'} of them:")
    print_table(list(samples[0]), [list(sample.values()) for sample in samples])
    wanted = min(count, limit or count)
    if dry_run:
        say(f"{wanted:,} would be taken; nothing was changed")
        raise typer.Exit(0)
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"nobody to ask here; add --yes to {verb} {wanted:,} deliveries")
    if not typer.confirm(f"{verb} {wanted:,} deliveries?", err=True):
        raise typer.Exit(1)


def progress(verb: str, counts: Iterable[int], total: int | None) -> int:
    """Go through growing counts with a progress bar on a terminal, and return the last one."""
    done = 0
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as bar:
        shown = bar.add_task(verb, total=total)
        for done in counts:
            bar.update(shown, completed=done, description=f"{verb} {done:,}")
    return done
