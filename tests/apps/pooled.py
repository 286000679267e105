"""Transactional handlers that write, for a relay behind a transaction pooler."""

from __future__ import annotations

import relays

INSERT = "insert into ledger (event_id) values (%s)"


@relays.handler("order.paid", transactional=True)
async def write_in_loop(delivery, connection):
    await connection.execute(INSERT, [delivery.event_id])


@relays.handler("order.sent", transactional=True)
def write_in_thread(delivery, connection):
    connection.execute(INSERT, [delivery.event_id])
