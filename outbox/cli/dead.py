"""`outbox dead …` and `outbox replay`: repair what could not be delivered, or deliver it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from outbox import dead_letters
from outbox.bulk import Bulk
from outbox.cli import bulk as options
from outbox.cli.bulk import (
    By,
    Canary,
    Destination,
    Events,
    FailureShare,
    Limit,
    Rate,
    Since,
    Type,
    Until,
    Yes,
)
from outbox.cli.options import Dsn, Json, connected
from outbox.cli.output import print_json, print_table, say
from outbox.selection import Selection, select_deliveries

if TYPE_CHECKING:
    from datetime import datetime

    import psycopg

__all__ = ["app", "register"]

app = typer.Typer(help="Dead letters: list, show, redrive, discard.", no_args_is_help=True)
Reason = Annotated[str | None, typer.Option("--reason", help="Of this reason, such as http_500.")]
COLUMNS = ("event_id", "destination", "type", "attempt", "reason", "died_at", "detail")


def register(parent: typer.Typer) -> None:
    """Add `dead …` and `replay` to `parent`."""
    parent.add_typer(app, name="dead")
    parent.command()(replay)


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
        found = dead_letters.list_dead(connection, selection, limit)
        total = dead_letters.count_dead(connection, selection)
    if as_json:
        print_json({"total": total, "dead_letters": [_shown(row) for row in found]})
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
        print_json([_shown(row) for row in found])
        return
    for row in found:
        for name, value in _shown(row).items():
            typer.echo(f"{name:<12} {'-' if value is None else value}")


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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show how many and which.")] = False,
) -> None:
    """Revive dead letters: due now, with a new budget, under the same identity. A second run goes on."""
    selection = _selection(destination, event_type, event, reason, since, until)
    with connected(dsn) as connection:
        count = dead_letters.count_dead(connection, selection)
        samples = [_sample(row) for row in dead_letters.list_dead(connection, selection, options.SAMPLES)]
        if not options.confirm("redrive", count, samples, yes=yes or dry_run) or dry_run:
            raise typer.Exit(0 if dry_run or not count else 1)
        step = dead_letters.redriving(connection, selection, options.actor(by))
        bulk = Bulk(connection, step, limit=limit, rate=rate, canary=canary, failure_share=failure_share)
        done = options.work("redriving", bulk, min(count, limit or count))
    say(f"redrove {done} dead letters")


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
    yes: Yes = False,
) -> None:
    """Drop dead letters for good, and what a removed destination left open. The timeline keeps that."""
    selection = _selection(destination, event_type, event, reason, since, until)
    with connected(dsn) as connection:
        samples = [_sample(row) for row in dead_letters.list_dead(connection, selection, options.SAMPLES)]
        held = _held_by_removed(connection, destination)
        count = dead_letters.count_dead(connection, selection) + held
        if not samples and held:
            samples = [{"destination": destination, "state": "removed", "open deliveries": held}]
        if not options.confirm("discard", count, samples, yes=yes):
            raise typer.Exit(1 if count else 0)
        step = dead_letters.discarding(connection, selection, options.actor(by))
        done = options.work("discarding", Bulk(connection, step, limit=limit), min(count, limit or count))
    say(f"discarded {done} deliveries")


def replay(  # noqa: PLR0917 - typer builds the command line from the signature
    destination: Destination = None,
    event_type: Type = None,
    event: Events = None,
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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show how many and which.")] = False,
) -> None:
    """Deliver delivered events again, under the same identity. --since and --until are times of delivery."""
    selection = _selection(destination, event_type, event, None, since, until)
    with connected(dsn) as connection:
        now = _now(connection)
        count = dead_letters.count_delivered(connection, selection, now)
        if event and not count:
            raise LookupError("none of these events has a delivered delivery to replay; see `outbox status EVENT_ID`")
        samples = [_shown(row) for row in dead_letters.list_delivered(connection, selection, now, options.SAMPLES)]
        if not options.confirm("replay", count, samples, yes=yes or dry_run) or dry_run:
            raise typer.Exit(0 if dry_run or not count else 1)
        step = dead_letters.replaying(connection, selection, now, options.actor(by))
        bulk = Bulk(connection, step, limit=limit, rate=rate, canary=canary, failure_share=failure_share)
        done = options.work("replaying", bulk, min(count, limit or count))
    say(f"set {done} deliveries going again")


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


def _now(connection: psycopg.Connection[Any]) -> datetime:
    row = connection.execute("select clock_timestamp()").fetchone()
    assert row is not None  # noqa: S101 - a select without from has one row
    moment: datetime = row[0]
    return moment


def _held_by_removed(connection: psycopg.Connection[Any], name: str | None) -> int:
    if name is None:
        return 0
    row = connection.execute(
        "select count(*) from outbox.deliveries o join outbox.destinations d on d.id = o.destination_id"
        " where d.removed_at is not null and d.name = %s",
        [name],
    ).fetchone()
    return int(row[0]) if row is not None else 0


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in row.items()}


def _sample(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in _shown(row).items() if name in COLUMNS}
