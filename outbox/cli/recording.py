"""`outbox record`: record one event from a shell."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from outbox.cli.options import Dsn, Json, connected
from outbox.cli.output import print_json
from outbox.durations import parse_duration
from outbox.encoding import JsonText
from outbox.errors import UsageError
from outbox.record import record_event

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(record)


def record(  # noqa: PLR0917 - typer builds the command line from the signature
    event_type: Annotated[str, typer.Argument(metavar="TYPE", help="Dotted words, such as order.paid.")],
    payload: Annotated[str, typer.Argument(help="JSON; - reads it from standard input.")] = "{}",
    dsn: Dsn = None,
    key: Annotated[str | None, typer.Option(help="Ordering key.")] = None,
    idempotency_key: Annotated[str | None, typer.Option(help="The same one twice records one event.")] = None,
    header: Annotated[list[str] | None, typer.Option(help="NAME=VALUE; may be repeated.")] = None,
    delay: Annotated[str | None, typer.Option(help="Deliver later, such as 5m.")] = None,
    destination: Annotated[str | None, typer.Option(help="Only to this destination.")] = None,
    *,
    as_json: Json = False,
) -> None:
    """Record one event in a transaction of its own and print its id."""
    text = sys.stdin.read() if payload == "-" else payload
    try:
        json.loads(text)
    except ValueError as error:
        raise UsageError(f"the payload is not JSON: {error}") from None
    with connected(dsn) as connection, connection.transaction():
        event_id = record_event(
            connection,
            event_type,
            JsonText(text),
            key=key,
            idempotency_key=idempotency_key,
            headers=_headers(header or []),
            delay=None if delay is None else parse_duration(delay, "--delay"),
            destination=destination,
        )
    if as_json:
        print_json({"id": str(event_id)})
    else:
        typer.echo(str(event_id))


def _headers(options: list[str]) -> dict[str, Any]:
    headers = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals:
            raise UsageError(f"--header {name!r} has no value; write NAME=VALUE")
        headers[name] = value
    return headers
