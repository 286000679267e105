"""The checks of the chaos runs fail when they should: each is fed a run in which one thing went wrong."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.chaos.checks import CHECKS, complaints
from tests.chaos.duplicates import duplicates
from tests.chaos.evidence import Evidence
from tests.chaos.history import Attempt, History
from tests.chaos.ledger import Ending, Ledger, Recorded, Sighting

SHOP = "shop"


def recorded(event_id: str, at: float = 0.0, **changes) -> Recorded:
    row = Recorded(event_id, "order.paid", {"n": event_id}, Ending.COMMITTED, at, at + 0.1)
    return replace(row, **changes)


def seen(event_id: str, at: float = 1.0, **changes) -> Sighting:
    body = json.dumps({"type": "order.paid", "data": {"n": event_id}}).encode()
    sighting = Sighting(
        receiver=SHOP,
        event_id=event_id,
        attempt=1,
        body=body,
        identity=(("webhook-id", event_id),),
        is_signed=True,
        at=at,
        did="works",
        took=True,
        accepted_at=at + 0.1,
    )
    return replace(sighting, **changes)


def tried(event_id: str, outcome: str = "delivered", **changes) -> Attempt:
    return replace(Attempt(SHOP, event_id, 1, outcome, None, "answered", None), **changes)


def evidence(rows, sightings, attempts, **changes) -> Evidence:
    """Return a run in which the events of `rows` are there, and the status agrees with the tables."""
    history = History(events={row.event_id for row in rows if row.ending is not Ending.ROLLED_BACK}, attempts=attempts)
    for name, value in changes.items():
        setattr(history, name, value)
    history.overview = {
        "totals": {
            **dict.fromkeys(("scheduled", "leased", "held", "blocked"), 0),
            "waiting": len(history.open),
            "dead": len(history.dead),
        }
    }
    return Evidence(Ledger(list(rows), list(sightings)), history, {SHOP: {"order.paid"}}, {SHOP: 3}, ("s3cret",))


def failing(run: Evidence) -> set[str]:
    """Return the names of the checks that complain."""
    return {complaint.partition(":")[0] for complaint in complaints(run)}


def good_run() -> Evidence:
    """Two events of a key, one rolled back, one tried twice, all as it should be."""
    return evidence(
        [
            recorded("a", 0.0, key="k"),
            recorded("b", 0.5, key="k"),
            recorded("c", 0.6, ending=Ending.ROLLED_BACK),
            recorded("d", 0.7),
        ],
        [
            seen("a", 1.0),
            seen("b", 2.0),
            seen("d", 1.0, took=False, accepted_at=None, did="fails"),
            seen("d", 3.0, attempt=2),
        ],
        [tried("a"), tried("b"), tried("d", "retry", reason="http_500"), tried("d", attempt=2)],
    )


def test_a_good_run_has_no_complaints():
    assert complaints(good_run()) == []


def test_every_check_is_shown_to_fail_here():
    assert {check.__name__ for check in CHECKS} == {name for _, name in DOCTORED}


def lose_an_event(run: Evidence) -> None:
    run.history.attempts = [row for row in run.history.attempts if row.event_id != "b"]
    run.ledger.sightings = [sighting for sighting in run.ledger.sightings if sighting.event_id != "b"]


def lose_an_event_row(run: Evidence) -> None:
    run.history.events.discard("d")


def leave_a_delivered_one_open(run: Evidence) -> None:
    run.history.open.add((SHOP, "d"))
    run.history.overview["totals"]["waiting"] = 1


def bury_for_nothing(run: Evidence) -> None:
    run.history.attempts = [
        tried("a"),
        tried("b"),
        tried("d", "retry", reason="http_500"),
        tried("d", "dead", attempt=2),
    ]
    run.ledger.sightings[-1] = seen("d", 3.0, attempt=2, took=False, accepted_at=None)
    run.history.dead[SHOP, "d"] = "http_500"
    run.history.overview["totals"]["dead"] = 1


def bury_after_one_interruption(run: Evidence) -> None:
    bury_for_nothing(run)
    run.history.attempts[-1] = tried("d", "dead", attempt=2, reason="relay_died", certainty="ambiguous")
    run.history.dead[SHOP, "d"] = "relay_died"


def send_what_was_rolled_back(run: Evidence) -> None:
    run.ledger.add_sighting(seen("c"))
    run.history.attempts.append(tried("c"))


def send_what_nobody_recorded(run: Evidence) -> None:
    run.ledger.add_sighting(seen("x"))
    run.history.attempts.append(tried("x"))


def keep_what_was_rolled_back(run: Evidence) -> None:
    run.history.events.add("c")


def forget_a_try(run: Evidence) -> None:
    run.history.attempts = [row for row in run.history.attempts if row.outcome != "retry"]


def deny_a_try(run: Evidence) -> None:
    run.history.attempts[2] = tried("d", "retry", reason="connect_failed", certainty="not_sent")


def send_an_attempt_twice(run: Evidence) -> None:
    run.ledger.add_sighting(seen("d", 2.5, took=False, accepted_at=None))


def change_the_body(run: Evidence) -> None:
    run.ledger.sightings[-1] = seen("d", 3.0, attempt=2, body=b'{"type": "order.paid", "data": {"n":"d"}}')


def send_another_payload(run: Evidence) -> None:
    run.ledger.sightings[0] = seen("a", body=b'{"type": "order.paid", "data": {"n": "A"}}')


def leave_out_the_signature(run: Evidence) -> None:
    run.ledger.sightings[0] = seen("a", is_signed=False)


def overtake(run: Evidence) -> None:
    run.ledger.sightings[1] = seen("b", 0.9)


def overtake_before_the_answer(run: Evidence) -> None:
    run.ledger.sightings[1] = seen("b", 1.05)


def overtake_within_a_transaction(run: Evidence) -> None:
    run.ledger.recorded[:2] = [recorded("a", key="k"), recorded("b", key="k", position=1)]
    overtake(run)


def overtake_the_last_try_of_a_dead_one(run: Evidence) -> None:
    run.ledger.sightings[0] = seen("a", 1.0, took=False, accepted_at=None)
    run.ledger.add_sighting(seen("a", 2.5, attempt=2, took=False, accepted_at=None, did="refuses for good"))
    run.history.attempts[0] = tried("a", "retry", reason="http_500")
    run.history.attempts.append(tried("a", "dead", attempt=2, reason="http_413"))
    run.history.dead[SHOP, "a"] = "http_413"
    run.history.overview["totals"]["dead"] = 1


def call_a_refused_one_delivered(run: Evidence) -> None:
    run.ledger.sightings[-1] = seen("d", 3.0, attempt=2, accepted_at=None, did="fails")


def count_wrongly(run: Evidence) -> None:
    run.history.overview["totals"]["held"] = 1


def tell_another_state(run: Evidence) -> None:
    run.history.timelines["a"] = {"deliveries": [{"destination": SHOP, "state": "waiting", "attempts": [{}]}]}


def hide_an_attempt(run: Evidence) -> None:
    run.history.timelines["d"] = {"deliveries": [{"destination": SHOP, "state": "delivered", "attempts": [{}]}]}


def deliver_twice(run: Evidence) -> None:
    """The first attempt was accepted, and its row says that it was refused."""
    run.ledger.sightings[2] = seen("d", 1.0)


def dedupe_wrongly(run: Evidence) -> None:
    run.ledger.recorded[0] = recorded("a", key="k", idempotency_key="once")
    run.ledger.recorded[1] = recorded("b", 0.5, key="k", idempotency_key="once")


def print_a_secret(run: Evidence) -> None:
    run.outputs.append("signed with s3cret")


def keep_a_secret(run: Evidence) -> None:
    run.history.attempts[0] = tried("a", detail="Bearer s3cret")


def print_a_traceback(run: Evidence) -> None:
    run.outputs.append("Traceback (most recent call last):")


DOCTORED = [
    (lose_an_event, "conservation"),
    (lose_an_event_row, "conservation"),
    (leave_a_delivered_one_open, "conservation"),
    (bury_for_nothing, "deaths_explained"),
    (bury_after_one_interruption, "deaths_explained"),
    (send_what_was_rolled_back, "caller_commits"),
    (send_what_nobody_recorded, "caller_commits"),
    (keep_what_was_rolled_back, "caller_commits"),
    (forget_a_try, "every_try_recorded"),
    (deny_a_try, "every_try_recorded"),
    (send_an_attempt_twice, "every_try_recorded"),
    (change_the_body, "same_identity"),
    (send_another_payload, "same_identity"),
    (leave_out_the_signature, "same_identity"),
    (overtake, "key_order"),
    (overtake_before_the_answer, "key_order"),
    (overtake_within_a_transaction, "key_order"),
    (overtake_the_last_try_of_a_dead_one, "key_order"),
    (call_a_refused_one_delivered, "honesty"),
    (count_wrongly, "honesty"),
    (tell_another_state, "honesty"),
    (hide_an_attempt, "honesty"),
    (deliver_twice, "duplicates_explained"),
    (dedupe_wrongly, "one_event_per_idempotency_key"),
    (print_a_secret, "hygiene"),
    (keep_a_secret, "hygiene"),
    (print_a_traceback, "hygiene"),
]


@pytest.mark.parametrize(("doctor", "check"), DOCTORED, ids=[doctor.__name__ for doctor, _ in DOCTORED])
def test_a_doctored_run_is_found_by_its_check_alone(doctor, check):
    run = good_run()
    doctor(run)
    assert failing(run) == {check}


def test_an_interrupted_attempt_covers_a_request_and_explains_a_duplicate():
    run = good_run()
    run.ledger.sightings[2] = seen("d", 1.0)
    run.history.attempts[2] = tried("d", "interrupted", reason="relay_died", certainty="ambiguous")
    assert complaints(run) == []
    assert [explanation for _, explanation in duplicates(run)] == ["interrupted: relay_died"]


def test_what_a_receiver_took_and_denied_is_its_own_fault():
    run = good_run()
    run.ledger.sightings[2] = seen("d", 1.0, accepted_at=None, did="takes it and says it failed")
    assert complaints(run) == []
    [(_, explanation)] = duplicates(run)
    assert explanation == "the receiver denied it (takes it and says it failed)"


def test_transactions_that_overlapped_may_come_in_any_order():
    run = good_run()
    run.ledger.recorded[1] = recorded("b", 0.05, key="k")
    overtake(run)
    assert complaints(run) == []


def test_a_commit_nobody_heard_of_counts_when_it_is_there():
    run = good_run()
    run.ledger.recorded.append(recorded("u", ending=Ending.UNKNOWN))
    assert complaints(run) == []
    run.history.events.add("u")
    assert failing(run) == {"conservation"}
