"""Compares three ledgers kept apart: what the shop did, what the other side saw, what the database says. No I/O."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from relays.demo.endpoints import OK, SERVER_ERROR, UNAVAILABLE
from relays.demo.shop import CANCELLED, PLACED, RECEIPT

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from relays.demo.books import Books
    from relays.demo.endpoints import Request
    from relays.demo.mailbox import Letter
    from relays.demo.shop import Ledger

__all__ = ["PARTNER_TRIES", "Check", "compare"]

PARTNER_TRIES = 3


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison: what there should be, and what there is, both as multisets."""

    claim: str
    expected: Counter[Hashable]
    found: Counter[Hashable]

    @property
    def is_met(self) -> bool:
        """Whether each expected one is there, exactly as often as expected, and nothing else."""
        return self.expected == self.found

    @property
    def differences(self) -> list[str]:
        """What is missing and what is too much, in words."""
        missing, extra = self.expected - self.found, self.found - self.expected
        return [
            *(f"{self.claim}: {_words(one)} is missing{_times(count)}" for one, count in missing.items()),
            *(f"{self.claim}: {_words(one)} was not expected{_times(count)}" for one, count in extra.items()),
        ]


def compare(ledger: Ledger, books: Books, requests: Sequence[Request], letters: Sequence[Letter]) -> list[Check]:
    """Return all checks; the demo succeeded if each of them is met."""
    placed, receipts, cancelled = ledger.ids(PLACED), ledger.ids(RECEIPT), ledger.ids(CANCELLED)
    accepted = [(request.destination, request.event_id) for request in requests if request.status == OK]
    failed = [(request.destination, request.status) for request in requests if request.status != OK]
    history = [(one.destination, one.event_id, one.status) for one in books.attempts if one.sink == "webhook"]
    return [
        _check("events stored: committed ones, none rolled back", _ids(ledger), books.stored),
        _check("orders accepted by the warehouse, each once", [("warehouse", one) for one in placed], accepted),
        _check(
            "requests refused: 2 by the warehouse, all by the partner",
            [("warehouse", UNAVAILABLE)] * 2 + [("partner", SERVER_ERROR)] * PARTNER_TRIES * len(cancelled),
            failed,
        ),
        _check(
            "receipts in the mailbox, each once, to the right customer",
            [(event.event_id, event.customer) for event in ledger.committed if event.type == RECEIPT],
            [(letter.event_id, letter.recipient) for letter in letters],
        ),
        _check("reservations made by the handler, each once", placed, books.reservations),
        _check(
            "deliveries marked delivered",
            [(destination, one) for destination in ("warehouse", "stock") for one in placed]
            + [("receipts", one) for one in receipts],
            [(one.destination, one.event_id) for one in books.attempts if one.outcome == "delivered"],
        ),
        _check(
            "dead letters, with the reason",
            [("partner", one, PARTNER_TRIES, f"http_{SERVER_ERROR}") for one in cancelled],
            [(one.destination, one.event_id, one.tries, one.reason) for one in books.dead],
        ),
        _check(
            "webhook requests with a row of history each",
            [(request.destination, request.event_id, request.status) for request in requests],
            history,
        ),
        _check("requests without a valid signature", [], [one.event_id for one in requests if not one.is_signed]),
        _check("bodies that changed between attempts", [], _changed(requests)),
        _check("deliveries still open", [], [(one.destination, one.event_id) for one in books.open]),
    ]


def _check(claim: str, expected: Iterable[Hashable], found: Iterable[Hashable]) -> Check:
    return Check(claim, Counter(expected), Counter(found))


def _ids(ledger: Ledger) -> list[str]:
    return [event.event_id for event in ledger.committed]


def _changed(requests: Sequence[Request]) -> list[str]:
    """Return the events whose body was not the same on every attempt (promise same-identity)."""
    first: dict[tuple[str, str], bytes] = {}
    return [
        request.event_id
        for request in requests
        if first.setdefault((request.destination, request.event_id), request.body) != request.body
    ]


def _words(one: Hashable) -> str:
    return " ".join(map(str, one)) if isinstance(one, tuple) else str(one)


def _times(count: int) -> str:
    return "" if count == 1 else f" {count} times"
