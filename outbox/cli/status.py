"""`outbox status`: everything at a glance, or the whole story of one event."""

from __future__ import annotations

import sys
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.live import Live

from outbox.cli.options import Dsn, Json, connected
from outbox.cli.output import age, console, print_json, print_table, say, table
from outbox.durations import parse_duration
from outbox.errors import UsageError
from outbox.status import overview, timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.console import RenderableType

__all__ = ["register"]

COUNTED = ("waiting", "scheduled", "leased", "held", "blocked", "dead")
WATCH_SECONDS = 1.0
SAME_PROBLEMS_SHOWN = 3


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(status)


def status(
    event_id: Annotated[str | None, typer.Argument(help="Show the story of this event.", show_default=False)] = None,
    dsn: Dsn = None,
    *,
    as_json: Json = False,
    check: Annotated[bool, typer.Option("--check", help="Show problems alone; exit code 1 if there are any.")] = False,
    max_due: Annotated[str, typer.Option(help="A delivery due for longer than this is a problem.")] = "1m",
    watch: Annotated[bool, typer.Option("--watch", help="Show it again every second, until Ctrl-C.")] = False,
) -> None:
    """Show what is waiting, what is not delivered yet and why, and what needs attention."""
    max_due_seconds = parse_duration(max_due, "--max-due")
    if event_id is not None and (check or watch):
        raise UsageError("--check and --watch are for the overview; leave out the event id")
    if check and watch:
        raise UsageError("--check gives one answer and --watch goes on; leave one of them out")
    with connected(dsn) as connection:
        if event_id is not None:
            _show_event(timeline(connection, event_id), as_json=as_json)
            return
        if watch:
            _watch(lambda: overview(connection, max_due_seconds=max_due_seconds), as_json=as_json)
            return
        found = overview(connection, max_due_seconds=max_due_seconds)
    if as_json:
        print_json(found)
    else:
        _show(found, only_problems=check)
    if check and found["problems"]:
        raise typer.Exit(1)


def _watch(look: Callable[[], Mapping[str, Any]], *, as_json: bool) -> None:
    """Show the overview again and again until interrupted: redrawn on a terminal, else one after the other."""
    screen = console()
    with suppress(KeyboardInterrupt, BrokenPipeError):
        if as_json or not screen.is_terminal:
            while True:
                _print(look(), as_json=as_json)
                sys.stdout.flush()
                time.sleep(WATCH_SECONDS)
        with Live(console=screen, screen=True, auto_refresh=False) as live:
            while True:
                live.update(Group(*_parts(look())), refresh=True)
                time.sleep(WATCH_SECONDS)


def _print(found: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        _show(found, only_problems=False)


def _show(found: Mapping[str, Any], *, only_problems: bool) -> None:
    screen = console()
    for part in _problems(found["problems"]) if only_problems else _parts(found):
        screen.print(part, markup=False)
    if only_problems and not found["problems"]:
        typer.echo("no problem")


def _parts(found: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Yield what the overview shows, line by line and table by table."""
    database, totals = found["database"], found["totals"]
    yield f"PostgreSQL {database['server_version']}, schema version {database['schema_version']}"
    yield (
        ("about " if totals["is_estimate"] else "")
        + ", ".join(f"{totals[name]:,} {name}" for name in COUNTED)
        + f"; oldest waiting {age(totals['oldest_waiting_seconds']) or '-'}"
    )
    if totals["is_estimate"]:
        yield "too many to count in time: estimated from a sample, where blocked ones count as waiting"
    yield _relays(found["relays"]) if found["relays"] else "no relay is alive; start one with: outbox-relay"
    if found["destinations"]:
        yield _destinations(found["destinations"])
    else:
        yield "no destination yet; add one with: outbox destinations add NAME --sink webhook --events 'order.*' …"
    yield from _problems(found["problems"])


def _relays(relays: Sequence[Mapping[str, Any]]) -> RenderableType:
    return table(
        ["relay", "name", "state", "doorbell", "in flight", "heartbeat"],
        [
            (
                relay["id"],
                relay["name"],
                relay["state"] if relay["failing"] is None else "failing",
                relay["doorbell"],
                f"{relay['in_flight']}/{relay['concurrency']}",
                f"{age(relay['heartbeat_age_seconds'])} ago",
            )
            for relay in relays
        ],
    )


def _destinations(destinations: Sequence[Mapping[str, Any]]) -> RenderableType:
    return table(
        ["destination", "sink", "state", *COUNTED, "oldest", "delivered/h", "failed/h"],
        [
            (
                found["name"],
                found["sink"],
                found["state"],
                *(f"{found[name]:,}" for name in COUNTED),
                age(found["oldest_waiting_seconds"]),
                f"{found['delivered_last_hour']:,}",
                f"{found['failed_last_hour']:,}",
            )
            for found in destinations
        ],
    )


def _problems(problems: Sequence[Mapping[str, str]]) -> Iterator[RenderableType]:
    """Yield each problem with its remedy; many of the same kind are cut short."""
    seen: Counter[str] = Counter()
    for problem in problems:
        seen[problem["code"]] += 1
        if seen[problem["code"]] <= SAME_PROBLEMS_SHOWN:
            yield f"problem {problem['code']}: {problem['message']}\n  -> {problem['remedy']}"
    for code, count in seen.items():
        if count > SAME_PROBLEMS_SHOWN:
            yield f"problem {code}: and {count - SAME_PROBLEMS_SHOWN} more; all of them: outbox status --json"


def _show_event(found: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    event = found["event"]
    key = f", key {event['key']!r}" if event["key"] is not None else ""
    typer.echo(f"event {event['id']} {event['type']}{key}, recorded at {event['recorded_at']}")
    if not found["deliveries"]:
        typer.echo("no destination: none wanted this type when it was recorded")
        say("add a destination for the next ones; this one: record it again with --destination")
    for delivery in found["deliveries"]:
        to = f" for {delivery['recipient']}" if delivery["recipient"] else ""
        typer.echo(f"\n{delivery['destination']}{to}: {delivery['state']} - {delivery['why']}")
        if delivery["attempts"]:
            _show_attempts(delivery["attempts"])


SHOWN = ("attempt", "started_at", "duration_ms", "outcome", "reason", "certainty", "status", "relay", "detail")
HEADINGS = ("attempt", "started at", "ms", "outcome", "reason", "certainty", "status", "relay", "detail")


def _show_attempts(attempts: Sequence[Mapping[str, Any]]) -> None:
    print_table(HEADINGS, [[attempt[name] for name in SHOWN] for attempt in attempts])
