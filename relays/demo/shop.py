"""The shop: takes orders in transactions of its own and records what the world should hear of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import outbox

if TYPE_CHECKING:
    import psycopg

__all__ = ["Ledger", "create_tables", "trade"]

ORDERS = [
    ("ada@example.com", "kettle", 1, False),
    ("grace@example.com", "teapot", 2, False),
    ("alan@example.com", "tea, 250 g", 12, True),
    ("edsger@example.com", "strainer", 1, False),
    ("barbara@example.com", "cup", 6, False),
    ("tony@example.com", "saucer", 6, True),
]
"""Customer, article, quantity, and whether the payment is declined, so that the transaction is rolled back."""


@dataclass(slots=True)
class Ledger:
    """What the shop did, as it knows it: ids of events by type, committed and rolled back."""

    placed: list[str] = field(default_factory=list)
    receipts: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    rolled_back: list[str] = field(default_factory=list)

    @property
    def committed(self) -> list[str]:
        """All events that were committed."""
        return self.placed + self.receipts + self.cancelled


class PaymentDeclinedError(Exception):
    """The customer's bank said no: nothing of the order may remain."""


def create_tables(connection: psycopg.Connection[Any]) -> None:
    """Create the shop's own tables."""
    connection.execute("create schema shop")
    connection.execute(
        "create table shop.orders (id bigint generated always as identity primary key,"
        " customer text not null, sku text not null, quantity integer not null)"
    )
    connection.execute(
        "create table shop.reservations (order_id bigint primary key references shop.orders, event_id uuid not null,"
        " sku text not null, quantity integer not null)"
    )


def trade(connection: psycopg.Connection[Any]) -> Ledger:
    """Take the orders and cancel the first one; return what happened."""
    ledger = Ledger()
    for customer, sku, quantity, is_declined in ORDERS:
        placed: list[str] = []
        receipts: list[str] = []
        try:
            with connection.transaction():
                _place(connection, (customer, sku, quantity), placed, receipts)
                if is_declined:
                    raise PaymentDeclinedError  # noqa: TRY301 - the block under demonstration rolls back
        except PaymentDeclinedError:
            ledger.rolled_back += placed + receipts
        else:
            ledger.placed += placed
            ledger.receipts += receipts
    with connection.transaction():
        event_id = outbox.record_event(
            connection, "order.cancelled", {"order_id": 1, "reason": "found a samovar"}, key="1"
        )
        ledger.cancelled.append(str(event_id))
    return ledger


def _place(
    connection: psycopg.Connection[Any], order: tuple[str, str, int], placed: list[str], receipts: list[str]
) -> None:
    """Insert one order and record its two events, in the caller's transaction."""
    customer, sku, quantity = order
    row = connection.execute(
        "insert into shop.orders (customer, sku, quantity) values (%s, %s, %s) returning id", order
    ).fetchone()
    order_id = row[0] if row is not None else 0
    payload = {"order_id": order_id, "sku": sku, "quantity": quantity}
    placed.append(str(outbox.record_event(connection, "order.placed", payload, key=str(order_id))))
    receipt = {"to": [customer], "subject": f"Your order {order_id}", "text": f"Thank you for {quantity} x {sku}."}
    receipts.append(str(outbox.record_event(connection, "mail.receipt", receipt)))
