"""`outbox replay`: deliver again what was delivered."""

from __future__ import annotations

import typer

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
from outbox.cli.output import say
from outbox.cli.runs import SAMPLES, Run
from outbox.destinations import check_name
from outbox.obstacles import obstacles
from outbox.replay import find_replayable
from outbox.rows import named_row
from outbox.selection import select_deliveries

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(replay)


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
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Deliver delivered events again, under the same identity. --since and --until are times of delivery.

    To go on with an interrupted run, run it again with the --until that it printed.
    """
    selection = select_deliveries(
        destination=destination, event_type=event_type, events=event or [], since=since, until=until
    )
    run = Run("replay", as_json=as_json, yes=yes, dry_run=dry_run, limit=limit)
    with connected(dsn) as connection:
        if destination is not None:
            check_name(connection, destination)
        moment = until or named_row(connection, "read_clock").now
        found = find_replayable(connection, selection, moment, actor(by))
        if event and not found:
            raise LookupError("none of these events has a delivered delivery to replay; see `outbox status EVENT_ID`")
        run.warn(obstacles(connection, found.destination_ids) if found else [], canary)
        run.confirm(len(found), found.samples(SAMPLES))
        run.again = f"to go on, run it again with --until {moment.isoformat()}"
        say(f"should this be interrupted, go on with --until {moment.isoformat()}")
        bulk = Bulk(connection, found.step, limit=limit, rate=rate, canary=canary, failure_share=failure_share)
        run.carry_out(bulk.run(), "set {} deliveries going again")
