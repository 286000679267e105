"""The shop's handler, loaded by the relay with `--app relays.demo.app`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import relays

if TYPE_CHECKING:
    from typing import Any

    import psycopg

    from relays import Delivery


@relays.handler("order.placed", transactional=True)
async def reserve_stock(delivery: Delivery, connection: psycopg.AsyncConnection[Any]) -> None:
    """Reserve what was ordered, in the same transaction that settles the delivery: exactly once."""
    order = delivery.payload
    await connection.execute(
        "insert into shop.reservations (order_id, event_id, article, quantity) values (%s, %s, %s, %s)",
        [order["order_id"], delivery.event_id, order["article"], order["quantity"]],
    )
