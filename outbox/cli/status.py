"""`outbox status`: everything at a glance, or the whole story of one event."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outbox.cli.options import Dsn, Json, connected
from outbox.cli.output import age, console, print_json, print_table, say
from outbox.status import overview, timeline

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg

__all__ = ["register"]

COUNTED = ("waiting", "scheduled", "leased", "held", "blocked", "dead")
WATCH_SECONDS = 1.0


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(status)


def status(
    event_id: Annotated[str | None, typer.Argument(help="Show the story of this event.", show_default=False)] = None,
    dsn: Dsn = None,
    *,
    as_json: Json = False,
    check: Annotated[bool, typer.Option("--check", help="Exit code 1 if there is a problem; for monitoring.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again every second, until Ctrl-C.")] = False,
) -> None:
    """Show what is waiting, what is not delivered yet and why, and what needs attention."""
    with connected(dsn) as connection:
        if event_id is not None:
            _show_event(timeline(connection, event_id), as_json=as_json)
            return
        if watch:
            _watch(connection)
            return
        found = overview(connection)
    if as_json:
        print_json(found)
    elif not check:
        _show(found)
    if check and not as_json:
        _show_problems(found)
    if check and found["problems"]:
        raise typer.Exit(1)


def _watch(connection: psycopg.Connection[Any]) -> None:
    """Redraw the overview until interrupted."""
    screen = console()
    try:
        with screen.screen(hide_cursor=True):
            while True:
                found = overview(connection)
                screen.clear()
                _show(found)
                time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        return


def _show(found: Mapping[str, Any]) -> None:
    database = found["database"]
    totals = found["totals"]
    typer.echo(f"PostgreSQL {database['server_version']}, schema version {database['schema_version']}")
    typer.echo(
        ", ".join(f"{totals[name]} {name}" for name in COUNTED)
        + f"; oldest waiting {age(totals['oldest_waiting_seconds']) or '-'}"
    )
    if found["relays"]:
        print_table(
            ["relay", "name", "state", "doorbell", "in flight", "heartbeat"],
            [
                (
                    relay["id"],
                    relay["name"],
                    relay["state"],
                    relay["doorbell"],
                    f"{relay['in_flight']}/{relay['concurrency']}",
                    f"{age(relay['heartbeat_age_seconds'])} ago",
                )
                for relay in found["relays"]
            ],
        )
    else:
        typer.echo("no relay is alive; start one with: outbox-relay")
    if found["destinations"]:
        print_table(
            ["destination", "sink", "state", *COUNTED, "oldest", "delivered/h", "failed/h"],
            [
                (
                    destination["name"],
                    destination["sink"],
                    destination["state"],
                    *(destination[name] for name in COUNTED),
                    age(destination["oldest_waiting_seconds"]),
                    destination["delivered_last_hour"],
                    destination["failed_last_hour"],
                )
                for destination in found["destinations"]
            ],
        )
    else:
        typer.echo("no destination yet; add one with: outbox destinations add NAME --sink webhook --events 'order.*' …")
    _show_problems(found)


def _show_problems(found: Mapping[str, Any]) -> None:
    for problem in found["problems"]:
        say(f"problem {problem['code']}: {problem['message']}; {problem['remedy']}")


def _show_event(found: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    event = found["event"]
    key = f", key {event['key']!r}" if event["key"] is not None else ""
    typer.echo(f"event {event['id']} {event['type']}{key}, recorded at {event['recorded_at']}")
    if not found["deliveries"]:
        typer.echo("no destination: none wanted this type when it was recorded; `outbox replay` can send it later")
    for delivery in found["deliveries"]:
        to = f" for {delivery['recipient']}" if delivery["recipient"] else ""
        typer.echo(f"\n{delivery['destination']}{to}: {delivery['state']} - {delivery['why']}")
        if delivery["attempts"]:
            print_table(
                ["attempt", "started at", "ms", "outcome", "reason", "certainty", "status", "relay", "detail"],
                [
                    (
                        attempt["attempt"],
                        attempt["started_at"],
                        attempt["duration_ms"],
                        attempt["outcome"],
                        attempt["reason"],
                        attempt["certainty"],
                        attempt["status"],
                        attempt["relay"],
                        attempt["detail"],
                    )
                    for attempt in delivery["attempts"]
                ],
            )
