"""`outbox apply outbox.toml`: the destinations as the file says them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outbox.cli.asking import ask
from outbox.cli.options import Dsn, Json, connected
from outbox.cli.output import print_json, say
from outbox.configuration import differences, parse_configuration
from outbox.destinations import apply_changes, check_destination, list_destinations
from outbox.errors import UsageError
from outbox.masking import shown_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from outbox.configuration import Change, Difference, Wanted

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(apply)


def apply(
    path: Annotated[str, typer.Argument(metavar="FILE", help="outbox.toml, or - for standard input.")] = "outbox.toml",
    dsn: Dsn = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Remove destinations that the file does not name.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before removing.")] = False,
    as_json: Json = False,
) -> None:
    """Make the destinations what a file says, all at once or not at all; shows what changes. Safe to run again."""
    wanted = parse_configuration(_read(path), path)
    for one in wanted:
        _check(one, path)
    with connected(dsn) as connection:
        changes = differences(wanted, list_destinations(connection), prune=prune)
        _show(changes, as_json=as_json, is_dry=dry_run)
        if dry_run:
            return
        if removed := [change.name for change in changes if change.verb == "remove"]:
            ask(f"remove {', '.join(removed)}", yes=yes)
        apply_changes(connection, changes)


def _check(wanted: Wanted, path: str) -> None:
    try:
        check_destination(wanted.name, wanted.sink, wanted.event_types, wanted.settings, wanted.policy)
    except UsageError as error:
        raise UsageError(f"{path}: destinations.{wanted.name}: {error}") from None


def _read(path: str) -> str:
    if path == "-":
        return sys.stdin.read()
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"cannot read {path}: {cause}") from None


def _show(changes: Sequence[Change], *, as_json: bool, is_dry: bool) -> None:
    if as_json:
        print_json({"dry_run": is_dry, "changes": [_described(change) for change in changes]})
        return
    for change in changes:
        for line in _lines(change):
            typer.echo(line)
    unnamed = [change.name for change in changes if change.verb == "keep" and change.wanted is None]
    if unnamed:
        say(f"not in the file, and kept without --prune: {', '.join(unnamed)}")
    if all(change.verb == "keep" for change in changes):
        say("nothing to change")


_SIGNS = {"add": "+", "change": "~", "remove": "-"}


def _lines(change: Change) -> Iterator[str]:
    if change.verb == "keep":
        return
    yield f"{_SIGNS[change.verb]} {change.name}"
    for found in _described(change)["differences"]:
        name = found["part"] if not found["key"] else f"{found['part']}.{found['key']}"
        if found["before"] is None:
            yield f"    {name} = {found['after']}"
        elif found["after"] is None:
            yield f"    {name} removed, was {found['before']}"
        else:
            yield f"    {name} = {found['after']}, was {found['before']}"


def _described(change: Change) -> dict[str, Any]:
    shown = [_masked(change, difference) for difference in change.differences]
    return {"verb": change.verb, "name": change.name, "differences": shown}


def _masked(change: Change, difference: Difference) -> dict[str, Any]:
    before, after = difference.before, difference.after
    if difference.part == "settings" and change.wanted is not None:
        before, after = (
            None if value is None else shown_settings(change.wanted.sink, {difference.key: value})[difference.key]
            for value in (before, after)
        )
    return {"part": difference.part, "key": difference.key, "before": before, "after": after}
