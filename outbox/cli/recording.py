"""`outbox record`: record one event from a shell."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from psycopg import errors

from outbox.cli.options import Dsn, Json, connected
from outbox.cli.output import print_json
from outbox.durations import parse_duration
from outbox.encoding import JsonText
from outbox.errors import OutboxError, SchemaMismatch, UsageError
from outbox.record import record_event

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(record)


def record(  # noqa: PLR0917 - typer builds the command line from the signature
    event_type: Annotated[str, typer.Argument(metavar="TYPE", help="Dotted words, such as order.paid.")],
    payload: Annotated[str, typer.Argument(help="JSON, @FILE, or - for standard input.")] = "{}",
    dsn: Dsn = None,
    key: Annotated[str | None, typer.Option(help="Ordering key.")] = None,
    idempotency_key: Annotated[str | None, typer.Option(help="The same one twice records one event.")] = None,
    header: Annotated[list[str] | None, typer.Option(help="NAME=VALUE; may be repeated.")] = None,
    delay: Annotated[str | None, typer.Option(help="Deliver later, such as 5m.")] = None,
    due_at: Annotated[str | None, typer.Option(help="Deliver then, such as 2026-12-01T09:30:00+01:00.")] = None,
    destination: Annotated[str | None, typer.Option(help="Only to this destination.")] = None,
    *,
    as_json: Json = False,
) -> None:
    """Record one event in a transaction of its own and print its id."""
    body = _payload(payload)
    headers = _headers(header or [])
    moment = None if due_at is None else _moment(due_at)
    seconds = None if delay is None else parse_duration(delay, "--delay")
    # Whoever may only record may not read the version of the schema: the call itself tells whether it fits.
    with connected(dsn, with_schema=False) as connection, _remedies(), connection.transaction():
        event_id = record_event(
            connection,
            event_type,
            body,
            key=key,
            idempotency_key=idempotency_key,
            headers=headers,
            due_at=moment,
            delay=seconds,
            destination=destination,
        )
    if as_json:
        print_json({"id": str(event_id)})
    else:
        typer.echo(str(event_id))


def _payload(argument: str) -> JsonText:
    text = _text(argument)
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse_constant)
    except RecursionError:
        raise UsageError("the payload is nested too deeply; flatten it") from None
    except ValueError as error:
        raise UsageError(f"the payload is not JSON: {error}") from None
    return JsonText(text)


def _text(argument: str) -> str:
    if argument != "-" and not argument.startswith("@"):
        return argument
    try:
        data = sys.stdin.buffer.read() if argument == "-" else Path(argument[1:]).read_bytes()
        return data.decode("utf-8-sig")  # PowerShell puts a byte order mark in front
    except OSError as error:
        raise UsageError(f"the payload cannot be read from {argument[1:]!r}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"the payload is not UTF-8: byte {error.start}; JSON is") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number; pass null or text")


def _headers(options: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals:
            raise UsageError(f"--header {name!r} has no value; write NAME=VALUE")
        if name in headers:
            raise UsageError(f"--header {name!r} is given more than once; give it one value")
        headers[name] = value
    return headers


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.utcoffset() is None:
        raise UsageError(f"--due-at {text!r} is not a time with an offset; write it like 2026-12-01T09:30:00+01:00")
    return moment


@contextmanager
def _remedies() -> Iterator[None]:
    """Say the remedy that recording notes on the driver's error, where recording is not set up or not allowed."""
    try:
        yield
    except (errors.InvalidSchemaName, errors.UndefinedFunction) as error:
        raise SchemaMismatch("; ".join(error.__notes__)) from error
    except errors.InsufficientPrivilege as error:
        raise OutboxError("; ".join(error.__notes__)) from error
    except errors.DataError as error:  # JSON, but none that PostgreSQL takes: 1e999999
        raise UsageError(f"the payload cannot be stored: {error.diag.message_primary}") from error
