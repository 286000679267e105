"""`outbox destinations test` and `rotate-secret`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outbox import destinations as known
from outbox.cli.options import Dsn, Json, Name, connected
from outbox.cli.output import age, print_json, print_table, say
from outbox.durations import format_duration, parse_duration
from outbox.errors import UsageError
from outbox.probes import probe, rotated_settings
from outbox.secrets import is_reference

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["register"]

STANDARD_INPUT = "-"


def register(app: typer.Typer) -> None:
    """Add the commands to `destinations`."""
    app.command("test")(try_out)
    app.command("rotate-secret")(rotate_secret)


def try_out(
    name: Name,
    dsn: Dsn = None,
    *,
    consent: Annotated[
        bool, typer.Option("--consent", help="First ask as CloudEvents web hooks do whether it may be sent to.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Send a test event now and show each step. Exit code 1 if one fails; no attempt is recorded."""
    with connected(dsn) as connection:
        destination = known.find_destination(connection, name)
    report = probe(destination, with_consent=consent)
    if as_json:
        print_json(report)
    else:
        _show(report)
    if not report["ok"]:
        raise typer.Exit(1)


def _show(report: Mapping[str, Any]) -> None:
    print_table(
        ["step", "result", "took", "detail"],
        [
            (step["name"], "ok" if step["ok"] else "failed", age(step["seconds"]), step["detail"])
            for step in report["steps"]
        ],
    )
    if report["curl"] is None:
        return
    say("\nthe same request again:")
    for variable, meaning in report["curl_variables"].items():
        say(f"  {variable}: {meaning}")
    typer.echo(report["curl"])


def rotate_secret(
    name: Name,
    secret: Annotated[
        str | None,
        typer.Option(help="env:NAME, file:PATH, or - to read it from standard input; default: make a new one."),
    ] = None,
    grace: Annotated[str, typer.Option(help="How long the secrets so far go on signing, too.")] = "24h",
    dsn: Dsn = None,
    *,
    as_json: Json = False,
) -> None:
    """Give a destination a new secret; old and new both sign for a while, so no receiver refuses meanwhile.

    A secret that is made here is printed once, to be given to the receiver, and shown nowhere again.
    """
    grace_seconds = parse_duration(grace, "--grace")
    with connected(dsn) as connection:
        destination = known.find_destination(connection, name)
        now = connection.execute("select clock_timestamp()").fetchone()
        assert now is not None  # noqa: S101 - a select without from has one row
        settings, made = rotated_settings(destination, _given(secret), grace_seconds, now[0])
        known.change_settings(connection, destination, settings)
    if as_json:
        print_json({"destination": name, "secret": made, "grace_seconds": grace_seconds})
    elif made is not None:
        typer.echo(made)
    say(f"{name} signs with the new secret, and with the old ones for {format_duration(grace_seconds)} more")


def _given(secret: str | None) -> str | None:
    """Return the secret to use; one on the command line would be in the process list and in the shell's history."""
    if secret is None:
        return None
    if secret == STANDARD_INPUT:
        return sys.stdin.readline().rstrip("\n")
    if not is_reference(secret):
        raise UsageError(
            "--secret takes env:NAME, file:PATH or - (standard input): on the command line others could read it"
        )
    return secret
