"""The demo from start to end: server, schema, destinations, receivers, relay, shop, comparison."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from outbox.database import connect
from outbox.embedded import EmbeddedServer, default_path
from outbox.errors import OutboxError, UsageError
from outbox.migrate import migrate
from relays.demo import report
from relays.demo.comparison import compare
from relays.demo.receivers import Mailbox, Receivers
from relays.demo.shop import create_tables, trade

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import psycopg
    from rich.console import Console

__all__ = ["run"]

SETTLED_SECONDS = 20.0
PARTNER_TRIES = 3


class DemoError(OutboxError):
    """The demo could not be played to its end."""


@dataclass(frozen=True, slots=True)
class World:
    """Everything the demo started."""

    dsn: str
    embedded: str
    connection: psycopg.Connection[Any]
    receivers: Receivers
    mailbox: Mailbox


async def run(console: Console, path: Path | None) -> int:
    """Play the demo with its database at `path` and return the exit code: 0 if all came as expected."""
    folder = path or default_path().with_name("demo")
    async with AsyncExitStack() as stack:
        world = await _build(stack, console, folder)
        async with _relay(world.dsn):
            ledger = trade(world.connection)
            console.print("the shop has traded; waiting for the relay to settle everything")
            await _settled(world.connection)
        differences = compare(world.connection, ledger, world.receivers, world.mailbox, PARTNER_TRIES)
        report.show(console, world.connection, ledger, world.receivers, world.mailbox)
        report.show_commands(console, world.embedded, _dead_event(world.connection))
        report.show_verdict(console, differences)
        return 1 if differences else 0


async def _build(stack: AsyncExitStack, console: Console, folder: Path) -> World:
    """Start the database and the receivers, migrate, and configure the destinations."""
    _clear(folder)
    server = stack.enter_context(EmbeddedServer(folder))
    console.print(f"PostgreSQL {_version(server.dsn())} in {folder}")
    connection = stack.enter_context(connect(server.dsn(), application_name="outbox demo"))
    migrate(connection)
    create_tables(connection)
    secret = "whsec_" + base64.b64encode(os.urandom(32)).decode()
    receivers = await stack.enter_async_context(Receivers(secret))
    mailbox = stack.enter_context(Mailbox())
    for name, sink, events, settings, policy in _destinations(receivers, mailbox):
        connection.execute(
            "insert into outbox.destinations (name, sink, event_types, settings, policy) values (%s, %s, %s, %s, %s)",
            [name, sink, events, json.dumps(settings), json.dumps(policy)],
        )
    return World(server.dsn(), f"embedded:{folder}", connection, receivers, mailbox)


def _clear(folder: Path) -> None:
    """Remove the database of an earlier demo, and nothing else."""
    if folder.exists() and not (folder / "PG_VERSION").exists():
        raise UsageError(f"{folder} is there and is no database; give another --path")
    shutil.rmtree(folder, ignore_errors=True)


def _destinations(
    receivers: Receivers, mailbox: Mailbox
) -> list[tuple[str, str, list[str], dict[str, Any], dict[str, Any]]]:
    quick = {"schedule": ["0.2s"], "max_attempts": 5}
    hook = {"secret": receivers.secret, "allow_http": True, "allow_networks": ["127.0.0.0/8"]}
    here = f"http://127.0.0.1:{receivers.port}"
    mail = {"host": "127.0.0.1", "port": mailbox.port, "security": "plain", "from": "shop@example.com"}
    return [
        ("warehouse", "webhook", ["order.placed"], {**hook, "url": f"{here}/warehouse"}, quick),
        (
            "partner",
            "webhook",
            ["order.cancelled"],
            {**hook, "url": f"{here}/partner"},
            {**quick, "max_attempts": PARTNER_TRIES},
        ),
        ("receipts", "email", ["mail.receipt"], mail, {"schedule": ["0.2s"]}),
        ("stock", "handler", ["order.placed"], {}, {}),
    ]


@asynccontextmanager
async def _relay(dsn: str) -> AsyncIterator[None]:
    """Run a real relay process, as an operator would."""
    command = [sys.executable, "-m", "relays", "--dsn", dsn, "--app", "relays.demo.app", "--log-level", "error"]
    process = await asyncio.create_subprocess_exec(*command, start_new_session=True)
    try:
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        if await process.wait() != 0:
            raise DemoError(
                f"the relay ended with exit code {process.returncode}; run it with: {' '.join(command[1:])}"
            )


async def _settled(connection: psycopg.Connection[Any]) -> None:
    """Wait until no delivery is open."""
    deadline = time.monotonic() + SETTLED_SECONDS
    while _open(connection):
        if time.monotonic() > deadline:
            raise DemoError(f"{_open(connection)} deliveries are still open after {SETTLED_SECONDS:g} s")
        await asyncio.sleep(0.05)


def _open(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("select count(*) from outbox.deliveries").fetchone()
    return int(row[0]) if row is not None else 0


def _version(dsn: str) -> str:
    with connect(dsn) as connection:
        return connection.info.parameter_status("server_version") or "?"


def _dead_event(connection: psycopg.Connection[Any]) -> str:
    row = connection.execute("select event_id::text from outbox.dead_letters limit 1").fetchone()
    return str(row[0]) if row is not None else "EVENT_ID"
