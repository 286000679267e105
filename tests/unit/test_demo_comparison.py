"""The demo's comparison notices each kind of difference between the three ledgers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relays.demo.books import Attempt, Books, DeadLetter, OpenDelivery
from relays.demo.comparison import PARTNER_TRIES, compare
from relays.demo.endpoints import OK, Request
from relays.demo.mailbox import Letter
from relays.demo.shop import CANCELLED, PLACED, RECEIPT, Ledger, Recorded

LEDGER = Ledger(
    committed=[Recorded("p", PLACED, "ada"), Recorded("r", RECEIPT, "ada"), Recorded("c", CANCELLED, "ada")],
    rolled_back=[Recorded("x", PLACED, "tony")],
)
REQUESTS = [Request("warehouse", "p", b"{}", True, status) for status in (503, 503, 200)] + [
    Request("partner", "c", b"{}", True, 500)
] * PARTNER_TRIES
LETTERS = [Letter("r", "ada")]
BOOKS = Books(
    stored=["p", "r", "c"],
    attempts=[
        *(Attempt("warehouse", "webhook", "p", "retry", 503) for _ in range(2)),
        Attempt("warehouse", "webhook", "p", "delivered", 200),
        *(Attempt("partner", "webhook", "c", "retry", 500) for _ in range(PARTNER_TRIES - 1)),
        Attempt("partner", "webhook", "c", "dead", 500),
        Attempt("receipts", "email", "r", "delivered", 250),
        Attempt("stock", "handler", "p", "delivered", None),
    ],
    dead=[DeadLetter("partner", "c", CANCELLED, PARTNER_TRIES, "http_500", None)],
    open=[],
    reservations=["p"],
)


def differences(books=BOOKS, requests=REQUESTS, letters=LETTERS):
    return [words for check in compare(LEDGER, books, requests, letters) for words in check.differences]


def test_ledgers_that_agree_differ_in_nothing():
    assert differences() == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"books": replace(BOOKS, stored=["r", "c"])}, "events stored: committed ones, none rolled back: p is missing"),
        ({"books": replace(BOOKS, stored=["p", "r", "c", "x"])}, "none rolled back: x was not expected"),
        ({"books": replace(BOOKS, reservations=["p", "p"])}, "reservations made by the handler, each once: p was not"),
        ({"books": replace(BOOKS, dead=[])}, "dead letters, with the reason: partner c 3 http_500 is missing"),
        (
            {"books": replace(BOOKS, dead=[replace(BOOKS.dead[0], reason="timeout")])},
            "with the reason: partner c 3 timeout was not expected",
        ),
        ({"books": replace(BOOKS, open=[OpenDelivery("stock", "p")])}, "deliveries still open: stock p was not"),
        (
            {"books": replace(BOOKS, attempts=BOOKS.attempts[1:])},
            "webhook requests with a row of history each: warehouse p 503 is missing",
        ),
        (
            {"books": replace(BOOKS, attempts=[*BOOKS.attempts, BOOKS.attempts[-1]])},
            "deliveries marked delivered: stock p was not expected",
        ),
        ({"requests": REQUESTS[3:]}, "orders accepted by the warehouse, each once: warehouse p is missing"),
        ({"requests": REQUESTS[1:]}, "requests refused: 2 by the warehouse, all by the partner: warehouse 503 is miss"),
        ({"requests": [*REQUESTS, REQUESTS[2]]}, "orders accepted by the warehouse, each once: warehouse p was not"),
        ({"letters": []}, "each once, to the right customer: r ada is missing"),
        ({"letters": [Letter("r", "tony")]}, "each once, to the right customer: r tony was not expected"),
        ({"letters": LETTERS * 3}, "to the right customer: r ada was not expected 2 times"),
        (
            {"requests": [replace(REQUESTS[0], is_signed=False), *REQUESTS[1:]]},
            "requests without a valid signature: p was not expected",
        ),
        (
            {"requests": [replace(REQUESTS[0], body=b"{ }"), *REQUESTS[1:]]},
            "bodies that changed between attempts: p was not expected 2 times",
        ),
        ({"requests": [*REQUESTS, Request("warehouse", "x", b"{}", True, OK)]}, "warehouse x was not expected"),
    ],
)
def test_a_difference_is_named(changed, words):
    found = differences(**changed)
    assert any(words in difference for difference in found), found
