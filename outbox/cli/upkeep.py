"""`outbox prune` and `outbox adopt`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outbox import identity
from outbox.cli.asking import ask
from outbox.cli.options import Dsn, Json, connected
from outbox.cli.output import print_json, say
from outbox.durations import format_duration, parse_duration
from outbox.prune import DEFAULT_AHEAD_DAYS, DEFAULT_KEEP, Pruned, expired_partitions
from outbox.prune import prune as do_upkeep

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(prune)
    app.command()(adopt)


def prune(
    dsn: Dsn = None,
    keep: Annotated[str, typer.Option(help="How long finished events and attempts stay, at least 1d.")] = (
        format_duration(DEFAULT_KEEP.total_seconds())
    ),
    ahead: Annotated[int, typer.Option(min=1, max=366, help="Days to have partitions ahead for.")] = DEFAULT_AHEAD_DAYS,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only name the partitions that would go.")] = False,
    as_json: Json = False,
) -> None:
    """Keep partitions ahead and remove what is finished and old. Relays do this by themselves; safe to run at any time.

    What is open or dead stays, whatever its age. Exit code 1 if a lock was not to be had: run it again.
    """
    kept = timedelta(seconds=parse_duration(keep, "--keep"))
    with connected(dsn) as connection:
        if dry_run:
            _show_expired(expired_partitions(connection, kept), as_json=as_json)
            return
        pruned = do_upkeep(connection, kept, ahead_days=ahead)
    if as_json:
        print_json(asdict(pruned))
    else:
        for line in _lines(pruned):
            typer.echo(line)
    if pruned.busy:
        say(f"not done, since others held the lock: {', '.join(pruned.busy)}; run it again")
        raise typer.Exit(1)


def _show_expired(names: list[str], *, as_json: bool) -> None:
    if as_json:
        print_json({"expired": names})
        return
    for name in names:
        typer.echo(f"{name} would be emptied of what is finished")
    if not names:
        typer.echo("nothing is older than that")


def _lines(pruned: Pruned) -> Iterator[str]:
    counts: dict[str, Any] = {
        "partitions created": pruned.created,
        "partitions emptied": len(pruned.purged),
        "partitions dropped": pruned.folded,
        "rows removed from default partitions": pruned.removed_rows,
        "rows kept, since unfinished": pruned.spared_rows,
        "idempotency keys expired": pruned.expired_keys,
        "minutes of counts merged": pruned.merged_counts,
        "relays forgotten": pruned.forgotten_relays,
    }
    for name, count in counts.items():
        yield f"{count:>9,} {name}"
    for table in pruned.adopted:
        yield f"made a partition of what the default partition of {table} had taken"
    for name in pruned.kept_whole:
        yield f"{name} is kept whole: too much in it is unfinished"


def adopt(
    dsn: Dsn = None, *, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False, as_json: Json = False
) -> None:
    """Let relays send from this database although it is a copy: restored, cloned or upgraded.

    What was open when the copy was made is sent again if the original has sent it since, under the same identity.
    """
    with connected(dsn) as connection:
        difference = identity.describe_copy(connection)
        if difference is not None:
            say(f"this database is a copy: {difference}")
            ask("let relays send from it", yes=yes)
        adopted = identity.adopt(connection)
    if as_json:
        print_json({"adopted": adopted})
    else:
        typer.echo("adopted: relays send from it now" if adopted else "nothing to adopt: the outbox belongs here")
