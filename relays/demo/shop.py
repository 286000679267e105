"""The shop: takes orders in transactions of its own and records what the world should hear of."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import outbox
from relays.demo.queries import query

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

__all__ = ["ORDERS", "Ledger", "Recorded", "trade"]

PLACED, RECEIPT, CANCELLED = "order.placed", "mail.receipt", "order.cancelled"


@dataclass(frozen=True, slots=True)
class Order:
    """What a customer wants; a declined payment rolls the whole order back."""

    customer: str
    article: str
    quantity: int
    is_declined: bool = False


ORDERS = (
    Order("ada@example.com", "kettle", 1),
    Order("grace@example.com", "teapot", 2),
    Order("alan@example.com", "tea, 250 g", 12, is_declined=True),
    Order("edsger@example.com", "strainer", 1),
    Order("barbara@example.com", "cup", 6),
    Order("tony@example.com", "saucer", 6, is_declined=True),
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event as the shop remembers it."""

    event_id: str
    type: str
    customer: str


@dataclass(slots=True)
class Ledger:
    """What the shop did, kept outside of any database."""

    committed: list[Recorded] = field(default_factory=list)
    rolled_back: list[Recorded] = field(default_factory=list)

    def ids(self, event_type: str) -> list[str]:
        """Return the ids of the committed events of a type."""
        return [event.event_id for event in self.committed if event.type == event_type]


class PaymentDeclinedError(Exception):
    """The customer's bank said no: nothing of the order may remain, and nobody may hear of it."""

    def __init__(self, recorded: Sequence[Recorded]) -> None:
        super().__init__("payment declined")
        self.recorded = recorded


def trade(connection: psycopg.Connection[Any]) -> Ledger:
    """Take all orders, cancel the first one, and return what happened."""
    ledger = Ledger()
    for order in ORDERS:
        try:
            ledger.committed += _take(connection, order)
        except PaymentDeclinedError as declined:
            ledger.rolled_back += declined.recorded
    ledger.committed.append(_cancel(connection, 1, ORDERS[0].customer))
    return ledger


def _take(connection: psycopg.Connection[Any], order: Order) -> list[Recorded]:
    """Take one order: its row and its two events are one transaction, all of it or nothing."""
    with connection.transaction():
        [(order_id,)] = connection.execute(query("insert_order"), asdict(order)).fetchall()
        placed = outbox.record_event(
            connection,
            PLACED,
            {"order_id": order_id, "article": order.article, "quantity": order.quantity},
            key=f"order-{order_id}",
        )
        receipt = outbox.record_event(
            connection,
            RECEIPT,
            {
                "to": [order.customer],
                "subject": f"Your order {order_id}",
                "text": f"Thank you! You ordered {order.quantity} x {order.article}.",
            },
        )
        recorded = [Recorded(str(placed), PLACED, order.customer), Recorded(str(receipt), RECEIPT, order.customer)]
        if order.is_declined:
            raise PaymentDeclinedError(recorded)
    return recorded


def _cancel(connection: psycopg.Connection[Any], order_id: int, customer: str) -> Recorded:
    with connection.transaction():
        payload = {"order_id": order_id, "reason": "found a samovar"}
        event_id = outbox.record_event(connection, CANCELLED, payload, key=f"order-{order_id}")
    return Recorded(str(event_id), CANCELLED, customer)
