"""`outbox dead …`: what could not be delivered, seen and repaired."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outbox import dead_letters
from outbox.bulk import Bulk
from outbox.cli.bulk import (
    By,
    Canary,
    Destination,
    DryRun,
    Events,
    FailureShare,
    Limit,
    Rate,
    Since,
    Type,
    Until,
    Yes,
    actor,
)
from outbox.cli.options import Dsn, Json, connected
from outbox.cli.output import print_json, print_table, say, shown
from outbox.cli.runs import SAMPLES, Run
from outbox.destinations import check_name
from outbox.obstacles import obstacles
from outbox.selection import Selection, select_deliveries
from outbox.status import timeline

if TYPE_CHECKING:
    import psycopg

__all__ = ["app", "register"]

app = typer.Typer(help="Dead letters: list, show, redrive, discard.", no_args_is_help=True)
Reason = Annotated[str | None, typer.Option("--reason", help="Of this reason, such as http_500.")]
COLUMNS = ("event_id", "destination", "type", "attempt", "reason", "died_at", "detail")


def register(parent: typer.Typer) -> None:
    """Add `dead …` to `parent`."""
    parent.add_typer(app, name="dead")


@app.command("list")
def list_(
    destination: Destination = None,
    event_type: Type = None,
    reason: Reason = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 100,
    dsn: Dsn = None,
    *,
    as_json: Json = False,
) -> None:
    """List dead letters, oldest first."""
    selection = Selection(destination=destination, event_type=event_type, reason=reason)
    with connected(dsn) as connection:
        if destination is not None:
            check_name(connection, destination)
        found = dead_letters.list_dead(connection, selection, limit)
        total = dead_letters.count_dead(connection, selection)
    if as_json:
        print_json({"total": total, "dead_letters": found})
    elif found:
        print_table(COLUMNS, [[row[name] for name in COLUMNS] for row in found])
        if total > len(found):
            say(f"{total - len(found)} more; raise --limit or narrow the filter")
    else:
        typer.echo("no dead letters")


@app.command()
def show(
    event_id: Annotated[str, typer.Argument(help="Its event.")], dsn: Dsn = None, *, as_json: Json = False
) -> None:
    """Show the dead letters of one event; its whole story is `outbox status EVENT_ID`."""
    selection = select_deliveries(destination=None, event_type=None, events=[event_id])
    with connected(dsn) as connection:
        found = dead_letters.list_dead(connection, selection, 1000)
    if not found:
        raise LookupError(f"event {event_id} has no dead letter; see `outbox status {event_id}`")
    if as_json:
        print_json(found)
        return
    for row in found:
        for name, value in row.items():
            typer.echo(f"{name:<12} {shown(value)}")


@app.command()
def redrive(  # noqa: PLR0917 - typer builds the command line from the signature
    destination: Destination = None,
    event_type: Type = None,
    event: Events = None,
    reason: Reason = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
    rate: Rate = None,
    canary: Canary = 0,
    failure_share: FailureShare = 0.5,
    by: By = None,
    dsn: Dsn = None,
    *,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Revive dead letters: due now, with a new budget, under the same identity. A second run goes on with the rest."""
    selection = _selection(destination, event_type, event, reason, since, until)
    run = Run("redrive", as_json=as_json, yes=yes, dry_run=dry_run, limit=limit)
    with connected(dsn) as connection:
        _refuse_mistakes(connection, selection)
        tally = dead_letters.tally_dead(connection, selection)
        if tally.of_removed:
            say(f"left out, since their destination is removed: {tally.of_removed:,}; resume it, or discard them")
        run.warn(obstacles(connection, tally.destination_ids) if tally.destination_ids else [], canary)
        run.confirm(tally.dead - tally.of_removed, _samples(connection, selection))
        step = dead_letters.redriving(connection, selection, actor(by))
        bulk = Bulk(connection, step, limit=limit, rate=rate, canary=canary, failure_share=failure_share)
        run.carry_out(bulk.run(), "redrove {} dead letters")
    if run.done < run.wanted:
        say(f"{run.wanted - run.done:,} were not there any more: somebody else was faster")


@app.command()
def discard(  # noqa: PLR0917 - typer builds the command line from the signature
    destination: Destination = None,
    event_type: Type = None,
    event: Events = None,
    reason: Reason = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
    by: By = None,
    dsn: Dsn = None,
    *,
    removed: Annotated[bool, typer.Option("--removed", help="Only of a removed destination of that name.")] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Drop dead letters for good; with --destination alone also what a removed one left open. The timeline keeps it."""
    selection = _selection(destination, event_type, event, reason, since, until)
    if removed:
        selection = replace(selection, is_removed=True)
    run = Run("discard", as_json=as_json, yes=yes, dry_run=dry_run, limit=limit)
    with connected(dsn) as connection:
        _refuse_mistakes(connection, selection)
        samples = _samples(connection, selection)
        held = dead_letters.count_held(connection, selection) if selection.is_of_destination_alone else 0
        if not samples and held:
            samples = [{"destination": destination, "state": "removed", "open deliveries": held}]
        run.confirm(dead_letters.count_dead(connection, selection) + held, samples)
        step = dead_letters.discarding(connection, selection, actor(by))
        run.carry_out(Bulk(connection, step, limit=limit).run(), "discarded {} deliveries")


def _selection(  # noqa: PLR0917 - the filter options, in their order
    destination: str | None,
    event_type: str | None,
    events: list[str] | None,
    reason: str | None,
    since: datetime | None,
    until: datetime | None,
) -> Selection:
    return select_deliveries(
        destination=destination, event_type=event_type, events=events or [], reason=reason, since=since, until=until
    )


def _refuse_mistakes(connection: psycopg.Connection[Any], selection: Selection) -> None:
    """Refuse all of it when a destination is unknown, or an event that is named has no dead letter."""
    if selection.destination is not None:
        check_name(connection, selection.destination)
    missing = dead_letters.missing_events(connection, selection)
    if missing:
        deliveries = timeline(connection, str(missing[0]))["deliveries"]
        states = ", ".join(f"{one['destination']} {one['state']}" for one in deliveries) or "no destination"
        raise LookupError(f"event {missing[0]} has no such dead letter ({states}); nothing was changed")


def _samples(connection: psycopg.Connection[Any], selection: Selection) -> list[dict[str, Any]]:
    """Return what identifies the first dead letters among others."""
    names = ("event_id", "destination", "type", "reason", "died_at")
    found = dead_letters.list_dead(connection, selection, SAMPLES)
    return [{name: row[name] for name in names} for row in found]
