"""The demo from start to end: the stage, a relay, the shop, the comparison."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from outbox.cli.output import say
from outbox.errors import OutboxError
from relays.demo import report
from relays.demo.books import Books, open_deliveries
from relays.demo.comparison import compare
from relays.demo.relay_process import RelayEnded, running_relay
from relays.demo.shop import Ledger, trade
from relays.demo.world import World, build_world

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from pathlib import Path

__all__ = ["run"]

SETTLED_SECONDS = 15.0
LOOK_AGAIN_SECONDS = 0.05


async def run(folder: Path, *, keep: bool = False) -> int:
    """Play the demo with its database in `folder`; return the exit code: 0 if all came exactly as expected.

    With `keep` everything runs on until Ctrl-C. SIGTERM and SIGHUP end the demo as Ctrl-C does: in order.

    Raises:
        OutboxError: the demo could not be played.
        asyncio.CancelledError: it was stopped by a signal.
    """
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - a coroutine runs in a task
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        async with build_world(folder) as world:
            return await _play(world, keep=keep)
    except OutboxError:
        if task.cancelling():  # Ctrl-C reaches the server's programs, too: that they failed is no news
            raise asyncio.CancelledError from None
        raise


async def _play(world: World, *, keep: bool) -> int:
    say(f"PostgreSQL {world.postgres_version} runs in {world.server.path}")
    say(f"webhook endpoints listen on port {world.endpoints.port} of 127.0.0.1, a mail server on {world.mailbox.port}")
    async with running_relay(world.server.dsn()) as relay:
        say(f"outbox-relay runs as process {relay.pid}")
        ledger = trade(world.connection)
        say("the shop has taken its orders; the relay delivers ...")
        await _settled(world, relay)
    differences = _tell(world, ledger)
    if keep:
        await _run_on(world)
    return 1 if differences else 0


async def _settled(world: World, relay: Process) -> None:
    """Wait until no delivery is open; what still is after a while will show in the comparison.

    Raises:
        RelayEnded: nobody is left to deliver.
    """
    deadline = time.monotonic() + SETTLED_SECONDS
    while open_deliveries(world.connection) and time.monotonic() < deadline:
        if relay.returncode is not None:
            raise RelayEnded(relay)
        await asyncio.sleep(LOOK_AGAIN_SECONDS)


def _tell(world: World, ledger: Ledger) -> list[str]:
    """Print what happened and return what is not as expected."""
    books = Books.read(world.connection)
    checks = compare(ledger, books, world.endpoints.requests, world.mailbox.letters)
    report.show(ledger, books, checks)
    report.show_commands(world.server.path, books)
    return [difference for check in checks for difference in check.differences]


async def _run_on(world: World) -> None:
    """Repair the partner and go on until Ctrl-C."""
    world.endpoints.is_partner_repaired = True
    report.show_invitation(world.server.path)
    with suppress(asyncio.CancelledError):
        async with running_relay(world.server.dsn()) as relay:
            await relay.wait()
