"""The stage of the demo: database, receivers and the destinations that lead to them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from outbox.database import connect
from outbox.destinations import add_destination
from outbox.embedded import EmbeddedServer
from outbox.migrate import migrate
from outbox.webhook_keys import generate_secret
from relays.demo.comparison import PARTNER_TRIES
from relays.demo.endpoints import Endpoints
from relays.demo.mailbox import Mailbox
from relays.demo.queries import query
from relays.demo.shop import CANCELLED, PLACED, RECEIPT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import psycopg

__all__ = ["World", "build_world"]

QUICK = {"schedule": ["0.2s"]}
"""Waits between tries, short enough for people who watch."""


@dataclass(frozen=True, slots=True)
class World:
    """Everything the demo started, but the relay."""

    server: EmbeddedServer
    connection: psycopg.Connection[Any]
    endpoints: Endpoints
    mailbox: Mailbox

    @property
    def postgres_version(self) -> str:
        """The version of the server."""
        return self.connection.info.parameter_status("server_version") or "?"


@asynccontextmanager
async def build_world(folder: Path) -> AsyncIterator[World]:
    """Start a new database in `folder`, in place of an earlier demo's, and the receivers; stop them at the end.

    Raises:
        UsageError: another demo uses the folder, or it holds something else.
    """
    server = EmbeddedServer(folder)
    server.remove()
    with server, connect(server.dsn(), application_name="outbox demo") as connection, Mailbox() as mailbox:
        migrate(connection)
        connection.execute(query("create_shop"))
        async with Endpoints(generate_secret()) as endpoints:
            _add_destinations(connection, endpoints, mailbox)
            yield World(server, connection, endpoints, mailbox)


def _add_destinations(connection: psycopg.Connection[Any], endpoints: Endpoints, mailbox: Mailbox) -> None:
    hook = {"secret": endpoints.secret, "allow_http": True, "allow_networks": ["127.0.0.0/8"]}
    mail = {"host": "127.0.0.1", "port": mailbox.port, "security": "plain", "from": "shop@example.com"}
    destinations: list[tuple[str, str, str, dict[str, Any], dict[str, Any]]] = [
        ("warehouse", "webhook", PLACED, {**hook, "url": endpoints.url("warehouse")}, QUICK),
        ("partner", "webhook", CANCELLED, {**hook, "url": endpoints.url("partner")}, _giving_up(PARTNER_TRIES)),
        ("receipts", "email", RECEIPT, mail, QUICK),
        ("stock", "handler", PLACED, {}, QUICK),
    ]
    for name, sink, event_type, settings, policy in destinations:
        add_destination(connection, name, sink=sink, event_types=[event_type], settings=settings, policy=policy)


def _giving_up(tries: int) -> dict[str, Any]:
    return {**QUICK, "max_attempts": tries}
