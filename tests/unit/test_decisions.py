"""What settling writes for each refusal, value by value."""

from __future__ import annotations

import pytest

from outbox.model import Certainty, Outcome
from outbox.policy import Policy
from relays.decisions import Decision, decide, released, storable
from relays.results import Refused

POLICY = Policy(schedule=(10.0, 60.0), max_attempts=3, jitter=0.0)


def decided(refused: Refused, tries: int = 1, *, policy: Policy = POLICY, age: float = 0.0) -> Decision:
    return decide(policy, refused, tries=tries, age_seconds=age, spread=0.0)


def test_a_retry_carries_everything_the_sink_said():
    refused = Refused("http_500", detail="sorry", certainty=Certainty.AMBIGUOUS, status=500)
    assert decided(refused) == Decision(Outcome.RETRY, 10.0, "http_500", "sorry", Certainty.AMBIGUOUS, 500)


def test_a_retry_without_words_has_none():
    assert decided(Refused("timeout")).detail is None


def test_the_end_has_no_next_time_and_says_why_before_the_last_words():
    assert decided(Refused("http_413", detail="too large", permanent=True)) == Decision(
        Outcome.DEAD, None, "http_413", "permanent; too large", Certainty.ANSWERED, None
    )
    assert decided(Refused("http_500"), 3).detail == "gave up after 3 of 3 tries"


def test_the_receiver_s_wait_and_the_number_of_the_try_are_taken_into_account():
    assert decided(Refused("http_503", retry_after=700.0)).wait_seconds == 700.0
    assert [decided(Refused("x", charged=False), tries).wait_seconds for tries in (0, 1, 2)] == [10.0, 10.0, 60.0]


def test_an_uncharged_refusal_is_marked_so():
    assert decided(Refused("setting_missing", charged=False), 99).is_charged is False
    assert decided(Refused("x")).is_charged is True


def test_max_age_allows_a_try_at_exactly_that_age():
    policy = Policy(schedule=(10.0,), max_attempts=9, jitter=0.0, max_age=60.0)
    assert decided(Refused("x"), policy=policy, age=50.0).outcome is Outcome.RETRY
    assert decided(Refused("x"), policy=policy, age=50.001).outcome is Outcome.DEAD


@pytest.mark.parametrize(
    ("was_started", "detail", "certainty"),
    [(True, "given back at the end of the relay's grace", Certainty.AMBIGUOUS), (False, None, Certainty.NOT_SENT)],
)
def test_what_is_given_back_is_due_at_once_and_not_charged(was_started, detail, certainty):
    assert released(was_started=was_started) == Decision(
        Outcome.RELEASED, 0.0, "relay_stopped", detail, certainty, None, is_charged=False, was_started=was_started
    )


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        (None, None),
        ("short", "short"),
        ("a\0b", "a\N{REPLACEMENT CHARACTER}b"),
        ("lone \ud800 surrogate", "lone ? surrogate"),
        ("é" * 3, "é" * 3),
        ("a" * 1024, "a" * 1024),
        ("a" * 4096, "a" * 4096),
        ("a" * 4097, "a" * 4096),
        ("a" + "é" * 2048, "a" + "é" * 2047),  # a character that the limit would halve is left out
    ],
)
def test_a_detail_is_what_postgresql_takes(text, stored):
    assert storable(text) == stored
