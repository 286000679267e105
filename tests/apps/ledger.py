"""Handlers that write one ledger row per event, in the transaction that settles it, for tests that kill the relay.

LEDGER_KILL names a point of handler or commit; the process kills itself there, once for every tenth event.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import relays
from relays.settlements import Settlements
from relays.sinks.handler import transactions

POINT = os.environ.get("LEDGER_KILL")  # noqa: TID251 - the test's own setting
SEEN = os.environ.get("LEDGER_SEEN", "")  # noqa: TID251 - a folder that outlives the process


def die_at(point: str, event_id: str) -> None:
    """Die with SIGKILL, the first time `event_id` gets to `point`."""
    if point != POINT or int(event_id[-2:], 16) % 10:
        return
    mark = Path(SEEN) / event_id
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


INSERT = "insert into ledger (event_id, amount) values (%s, %s)"


@relays.handler("order.paid", transactional=True)
async def write_in_loop(delivery, connection):
    die_at("before the effect", delivery.event_id)
    await connection.execute(INSERT, [delivery.event_id, delivery.payload["n"]])
    die_at("after the effect", delivery.event_id)


@relays.handler("order.sent", transactional=True)
def write_in_thread(delivery, connection):
    die_at("before the effect", delivery.event_id)
    connection.execute(INSERT, [delivery.event_id, delivery.payload["n"]])
    die_at("after the effect", delivery.event_id)


@relays.handler("order.counted", transactional=True, batch=10)
async def write_batch(deliveries, connection):
    for delivery in deliveries:
        await connection.execute(INSERT, [delivery.event_id, delivery.payload["n"]])
        die_at("after the effect", delivery.event_id)


def _dying(function, before: str, after: str, event_ids):
    """Return `function` with a chance to die on either side."""

    def check(point, arguments):
        for event_id in event_ids(arguments):
            die_at(point, event_id)

    def wrapped(*arguments):
        check(before, arguments)
        result = function(*arguments)
        check(after, arguments)
        return result

    return wrapped


def _of_group(arguments):
    return [delivery.event_id for delivery in arguments[0]]


transactions._check_owned = _dying(
    transactions._check_owned, "after the settling statement", "before the commit", _of_group
)
Settlements.finish = _dying(
    Settlements.finish, "after the commit", "after it is known", lambda arguments: [arguments[2].event_id]
)
