"""Compares three independent ledgers: what the shop committed, what the receivers saw, what the outbox says."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from relays.demo.receivers import HTTP_OK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import psycopg

    from relays.demo.receivers import Mailbox, Receivers, Request
    from relays.demo.shop import Ledger

__all__ = ["compare"]


def compare(
    connection: psycopg.Connection[Any], ledger: Ledger, receivers: Receivers, mailbox: Mailbox, partner_tries: int
) -> list[str]:
    """Return every difference in words; none means that each expected delivery came exactly as expected."""
    return [
        *_recorded(connection, ledger),
        *_webhooks(ledger, receivers, partner_tries),
        *_attempts(connection, receivers),
        *_mails(ledger, mailbox),
        *_reservations(connection, ledger),
        *_dead(connection, ledger, partner_tries),
    ]


def _column(connection: psycopg.Connection[Any], statement: str) -> list[Any]:
    return [row[0] for row in connection.execute(statement).fetchall()]


def _recorded(connection: psycopg.Connection[Any], ledger: Ledger) -> Iterator[str]:
    stored = set(_column(connection, "select id::text from outbox.events"))
    if stored != set(ledger.committed):
        yield f"{len(stored)} events are stored, {len(ledger.committed)} were committed"


def _webhooks(ledger: Ledger, receivers: Receivers, partner_tries: int) -> Iterator[str]:
    accepted = Counter(request.event_id for request in receivers.warehouse if request.status == HTTP_OK)
    if accepted != Counter(ledger.placed):
        yield f"warehouse accepted {sum(accepted.values())} requests for {len(ledger.placed)} orders, or not each once"
    if [request.event_id for request in receivers.partner] != ledger.cancelled * partner_tries:
        yield f"partner saw {len(receivers.partner)} requests, expected {partner_tries} of one event"
    for request in (*receivers.warehouse, *receivers.partner):
        if not request.is_signed:
            yield f"a request for event {request.event_id} had no valid signature"
    yield from _changed(receivers.warehouse)
    yield from _changed(receivers.partner)


def _changed(requests: Sequence[Request]) -> Iterator[str]:
    """Yield events whose body was not the same on every attempt (promise same-identity)."""
    bodies: dict[str, bytes] = {}
    for request in requests:
        if bodies.setdefault(request.event_id, request.body) != request.body:
            yield f"the body of event {request.event_id} changed between attempts"


def _attempts(connection: psycopg.Connection[Any], receivers: Receivers) -> Iterator[str]:
    """Yield a difference between requests seen and attempt rows written (promise every-try-recorded)."""
    rows = _column(
        connection,
        "select count(*) from outbox.attempts a join outbox.destinations d on d.id = a.destination_id"
        " where d.sink = 'webhook'",
    )
    seen = len(receivers.warehouse) + len(receivers.partner)
    if rows != [seen]:
        yield f"the receivers saw {seen} requests, the history has {rows[0]}"


def _mails(ledger: Ledger, mailbox: Mailbox) -> Iterator[str]:
    if len({message_id for _, _, message_id in mailbox.messages}) != len(ledger.receipts):
        yield f"{len(mailbox.messages)} mails arrived, expected {len(ledger.receipts)}"


def _reservations(connection: psycopg.Connection[Any], ledger: Ledger) -> Iterator[str]:
    reserved = _column(connection, "select event_id::text from shop.reservations")
    if Counter(reserved) != Counter(ledger.placed):
        yield f"{len(reserved)} reservations were made for {len(ledger.placed)} orders"


def _dead(connection: psycopg.Connection[Any], ledger: Ledger, partner_tries: int) -> Iterator[str]:
    dead = connection.execute("select event_id::text, attempt, reason from outbox.dead_letters").fetchall()
    expected = [(event_id, partner_tries, "http_500") for event_id in ledger.cancelled]
    if dead != expected:
        yield f"dead letters are {dead}, expected {expected}"
