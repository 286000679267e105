"""`outbox destinations …`: where events go."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from outbox import destinations as known
from outbox.cli import probing
from outbox.cli.asking import ask
from outbox.cli.bulk import By, actor
from outbox.cli.options import Dsn, Json, Name, connected
from outbox.cli.output import print_json, print_table, say
from outbox.cli.runs import progress
from outbox.errors import UsageError
from outbox.masking import shown_settings
from outbox.transitions import list_transitions

__all__ = ["app"]

app = typer.Typer(help="Where events go: add, look, change, pause, resume, remove.", no_args_is_help=True)

Events = Annotated[
    list[str] | None, typer.Option("--events", help="Types it gets: *, order.*, order.paid; may be repeated.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="KEY=VALUE of the sink; VALUE may be JSON; a KEY given twice is a list."),
]
PolicyOption = Annotated[list[str] | None, typer.Option("--policy", help="KEY=VALUE of the delivery policy.")]


@app.command("list")
def list_(dsn: Dsn = None, *, as_json: Json = False) -> None:
    """List the destinations."""
    with connected(dsn) as connection:
        found = known.list_destinations(connection)
    if as_json:
        print_json([_shown(destination) for destination in found])
    elif found:
        print_table(
            ["name", "sink", "state", "events", "reason"],
            [(d.name, d.sink, d.state.value, " ".join(d.event_types), d.state_reason) for d in found],
        )
    else:
        typer.echo("no destination yet; add one with: outbox destinations add NAME --sink webhook --events 'order.*' …")


@app.command()
def show(name: Name, dsn: Dsn = None, *, as_json: Json = False) -> None:
    """Show one destination; secrets are masked, references are shown."""
    with connected(dsn) as connection:
        found = known.find_destination(connection, name)
        shown = {**_shown(found), "transitions": list_transitions(connection, found.id)}
    if as_json:
        print_json(shown)
        return
    for field in ("name", "sink", "state", "state_reason", "state_changed_at", "held_until"):
        if shown[field] is not None:
            typer.echo(f"{field.replace('_', ' '):<18} {shown[field]}")
    typer.echo(f"{'events':<18} {' '.join(shown['events']) or 'only by name'}")
    for title in ("settings", "policy"):
        for key, value in sorted(shown[title].items()):
            typer.echo(f"{title[:-1] if title == 'settings' else title} {key:<{18 - len(title)}} {value}")
    for past in shown["transitions"]:
        because = f": {past['reason']}" if past["reason"] else ""
        typer.echo(f"{past['happened_at']:<27} {past['former_state']} → {past['state']}{because}")


@app.command()
def add(  # noqa: PLR0917 - typer builds the command line from the signature
    name: Name,
    sink: Annotated[str, typer.Option(help="webhook, email, handler, or a plug-in's name.")],
    events: Events = None,
    settings: Settings = None,
    policy: PolicyOption = None,
    dsn: Dsn = None,
) -> None:
    """Add a destination; events recorded from now on are routed to it."""
    with connected(dsn) as connection:
        known.add_destination(
            connection,
            name,
            sink=sink,
            event_types=events or [],
            settings=_pairs(settings, "--set"),
            policy=_pairs(policy, "--policy"),
        )
    say(
        f"added destination {name}"
        + ("" if events else "; without --events it gets only events recorded for it by name")
    )


@app.command("set")
def set_(
    name: Name, events: Events = None, settings: Settings = None, policy: PolicyOption = None, dsn: Dsn = None
) -> None:
    """Change a destination; KEY= (empty) removes a setting. Relays take it up within a second."""
    with connected(dsn) as connection:
        known.change_destination(
            connection,
            name,
            event_types=events,
            settings=_pairs(settings, "--set"),
            policy=_pairs(policy, "--policy"),
        )
    say(f"changed destination {name}")


@app.command()
def pause(
    name: Name,
    reason: Annotated[str | None, typer.Option(help="Why; shown by status.")] = None,
    by: By = None,
    dsn: Dsn = None,
) -> None:
    """Hold its deliveries: nothing is lost, no attempt is used."""
    with connected(dsn) as connection:
        known.pause_destination(connection, name, f"{reason or 'paused'} (by {actor(by)})")
    say(f"paused destination {name}; its deliveries are held until `outbox destinations resume {name}`")


@app.command()
def resume(name: Name, dsn: Dsn = None) -> None:
    """Let a paused, tripped, disabled or removed destination go on."""
    with connected(dsn) as connection:
        released = progress("resuming", known.resuming(connection, name), None)
    say(f"resumed destination {name}; {released} held deliveries are due again")


@app.command()
def remove(
    name: Name, dsn: Dsn = None, *, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False
) -> None:
    """Remove a destination; its open deliveries are held until they are discarded."""
    with connected(dsn) as connection:
        known.find_destination(connection, name)
        ask(f"remove destination {name}", yes=yes)
        left = known.remove_destination(connection, name)
    say(f"removed destination {name}; open deliveries held: {left}")
    if left:
        say(f"to drop them: outbox dead discard --destination {name} --removed")
        say(f"to take it back: outbox destinations resume {name}")


probing.register(app)


def _shown(destination: Any) -> dict[str, Any]:
    return {
        "name": destination.name,
        "sink": destination.sink,
        "events": list(destination.event_types),
        "state": destination.state.value,
        "state_reason": destination.state_reason,
        "state_changed_at": destination.state_changed_at.isoformat(),
        "held_until": None if destination.held_until is None else destination.held_until.isoformat(),
        "settings": shown_settings(destination.sink, destination.settings),
        "policy": dict(destination.policy),
    }


def _pairs(options: list[str] | None, option: str) -> dict[str, Any]:
    """Return KEY=VALUE options as an object: VALUE as JSON where it is JSON, empty as None, repeated keys as a list."""
    pairs: dict[str, Any] = {}
    for text in options or []:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{option} {key!r} has no value; write {option} KEY=VALUE")
        parsed = _parsed(value)
        if key in pairs:
            first = pairs[key]
            pairs[key] = [*first, parsed] if isinstance(first, list) else [first, parsed]
        else:
            pairs[key] = parsed
    return pairs


def _parsed(value: str) -> Any:
    if not value:
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):  # no JSON, or deeper than anybody means
        return value
