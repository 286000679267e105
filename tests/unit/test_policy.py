"""When to try again and when to give up: pure decisions, to attempt 10,000 and beyond (R01, R02)."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outbox.durations import format_duration, parse_duration
from outbox.errors import InvalidSettings
from outbox.model import Certainty, Outcome
from outbox.policy import Policy, parse_policy, wait_seconds
from relays.decisions import decide
from relays.results import Refused

TRIES = st.integers(1, 10_000)
SPREAD = st.floats(0, 1, exclude_max=True)
DURATION = st.floats(0.001, 366 * 86400)


@st.composite
def policies(draw):
    if draw(st.booleans()):
        return Policy(schedule=tuple(draw(st.lists(DURATION, min_size=1, max_size=12))))
    base = draw(st.floats(0.001, 3600))
    return Policy(base=base, factor=draw(st.floats(1, 1000)), cap=draw(st.floats(base, 366 * 86400)))


@given(policies(), TRIES, SPREAD, st.one_of(st.none(), st.floats(0, 86400)))
def test_r01_a_wait_is_never_past_infinite_or_beyond_the_cap_and_jitter(policy, tries, spread, retry_after):
    wait = wait_seconds(policy, tries, retry_after=retry_after, spread=spread)
    longest = max(policy.schedule or (policy.cap,))
    assert 0 < wait <= max(longest, retry_after or 0) * (1 + policy.jitter) * (1 + 1e-9)
    assert math.isfinite(wait)


@given(policies(), TRIES, SPREAD, st.floats(0, 86400))
def test_r02_nothing_comes_before_retry_after(policy, tries, spread, retry_after):
    assert wait_seconds(policy, tries, retry_after=retry_after, spread=spread) >= retry_after


@given(st.floats(0.001, 3600), st.floats(1, 1000), st.lists(TRIES, min_size=2, max_size=20))
def test_exponential_waits_never_shrink(base, factor, tries):
    policy = Policy(base=base, factor=factor, cap=86400.0)
    waits = [wait_seconds(policy, number, retry_after=None, spread=0) for number in sorted(tries)]
    assert all(first <= second for first, second in pairwise(waits))


@pytest.mark.parametrize("tries", [5, 30, 31, 32, 62, 63, 64, 150, 1023, 1024, 1100, 10_000])
def test_r01_the_tries_where_others_overflowed(tries):
    wait = wait_seconds(Policy(base=10, factor=2, cap=3600), tries, retry_after=None, spread=0.5)
    assert 0 < wait <= 3600 * 1.2


def test_r02_a_wave_is_spread_over_a_fifth_of_its_wait():
    waits = [wait_seconds(Policy(schedule=(100.0,)), 1, retry_after=None, spread=n / 1000) for n in range(1000)]
    assert min(waits) == 100
    assert max(waits) - min(waits) > 19


def test_the_last_step_of_a_schedule_repeats():
    policy = Policy(schedule=(5.0, 60.0))
    assert [wait_seconds(policy, n, retry_after=None, spread=0) for n in (1, 2, 3, 100)] == [5, 60, 60, 60]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"base": 0}, "policy.base"),
        ({"base": "-1s"}, "policy.base"),
        ({"cap": "1s", "base": "5s"}, "policy.cap"),
        ({"cap": "1e400"}, "policy.cap"),
        ({"factor": 0.5}, "policy.factor"),
        ({"factor": "nan"}, "policy.factor"),
        ({"max_attempts": 0}, "policy.max_attempts"),
        ({"max_attempts": 1.5}, "policy.max_attempts"),
        ({"max_attempts": True}, "policy.max_attempts"),
        ({"schedule": []}, "policy.schedule"),
        ({"schedule": ["5s", "soon"]}, r"policy.schedule\[1\]"),
        ({"jitter": 0.5}, "policy.jitter"),
        ({"rate": "10"}, "policy.rate"),
        ({"rate": "0/s"}, "policy.rate"),
        ({"on_dead": "stop"}, "policy.on_dead"),
        ({"timeout": None}, "policy.timeout"),
        ({"retries": 3}, "no setting 'retries'"),
    ],
)
def test_r01_a_bad_setting_is_refused_by_name(values, words):
    with pytest.raises(InvalidSettings, match=words):
        parse_policy(values, Policy())


def test_a_policy_is_read_as_it_is_written():
    policy = parse_policy(
        {"schedule": "5s,5m", "timeout": "20s", "max_in_flight": "4", "rate": "30/m", "on_dead": "block"}, Policy()
    )
    assert policy.schedule == (5, 300)
    assert (policy.max_attempts, policy.timeout, policy.max_in_flight) == (3, 20, 4)
    assert (policy.rate_per_second, policy.on_dead) == (0.5, "block")


def test_giving_a_base_replaces_a_default_schedule():
    policy = parse_policy({"base": "2s"}, Policy(schedule=(5.0,)))
    assert wait_seconds(policy, 2, retry_after=None, spread=0) == 4


# ---------------------------------------------------------------------- decisions


def decided(refused, *, tries=1, age=0.0, **policy):
    return decide(Policy(**policy), refused, tries=tries, age_seconds=age, spread=0)


@given(st.integers(1, 100), st.integers(1, 100))
def test_r08_dead_exactly_at_max_attempts(tries, most):
    outcome = decided(Refused("no"), tries=tries, max_attempts=most).outcome
    assert outcome is (Outcome.DEAD if tries >= most else Outcome.RETRY)


def test_a_permanent_refusal_is_dead_at_the_first_try():
    assert decided(Refused("http_413", permanent=True)).outcome is Outcome.DEAD


def test_an_uncharged_refusal_is_never_the_end():
    decision = decided(Refused("smtp_535", charged=False), tries=1000, age=1e9, max_attempts=1, max_age=1.0)
    assert decision.outcome is Outcome.RETRY
    assert not decision.is_charged


def test_max_age_ends_before_a_try_that_would_be_too_late():
    assert decided(Refused("no"), age=50, schedule=(20.0,), max_age=60.0).outcome is Outcome.DEAD
    assert decided(Refused("no"), age=30, schedule=(20.0,), max_age=60.0).outcome is Outcome.RETRY


def test_the_end_says_why_and_keeps_the_last_answer():
    decision = decided(Refused("http_500", "out of paper", certainty=Certainty.ANSWERED), tries=3, max_attempts=3)
    assert (decision.reason, decision.detail) == ("http_500", "gave up after 3 of 3 tries; out of paper")


# ---------------------------------------------------------------------- durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0.2s", 0.2), ("5m", 300), ("24h", 86400), ("5d", 432000), ("150ms", 0.15), (7, 7), (0.5, 0.5)],
)
def test_durations_are_read_as_people_write_them(text, seconds):
    assert parse_duration(text, "x") == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "5", "5 minutes", "-5s", "1e9s", "\u0665s", None, True, float("nan"), float("inf"), []]
)
def test_what_is_no_duration_is_refused_by_name(text):
    with pytest.raises(InvalidSettings, match="--grace"):
        parse_duration(text, "--grace")


@example(0.9999)
@given(st.floats(0.001, 366 * 86400))
def test_a_written_duration_reads_back_nearly_the_same(seconds):
    assert parse_duration(format_duration(seconds), "x") == pytest.approx(seconds, rel=0.01)


def test_a_wait_that_was_asked_for_is_taken_as_it_is():
    assert decided(Refused("retry_later", wait=7.0), schedule=(100.0,)).wait_seconds == 7.0


def test_the_bounds_of_each_setting_are_allowed():
    lowest = {"factor": 1, "jitter": 0, "max_attempts": 1, "max_in_flight": 1, "timeout": "1ms", "rate": "0.5/s"}
    highest = {"factor": 1000, "jitter": 0.2, "max_attempts": 1_000_000, "on_dead": "skip", "max_age": "366d"}
    assert parse_policy(lowest, Policy()) == Policy(
        factor=1.0, jitter=0.0, max_attempts=1, max_in_flight=1, timeout=0.001, rate_per_second=0.5
    )
    assert parse_policy(highest, Policy()) == Policy(factor=1000.0, max_attempts=1_000_000, max_age=366 * 86400.0)
    assert parse_policy({"base": "5s", "cap": "5s"}, Policy()).cap == 5.0


@pytest.mark.parametrize("name", ["max_age", "max_in_flight", "rate"])
def test_nothing_takes_a_limit_back(name):
    limited = Policy(max_age=5.0, max_in_flight=5, rate_per_second=5.0)
    field = "rate_per_second" if name == "rate" else name
    assert getattr(parse_policy({name: None}, limited), field) is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"max_attempts": 1_000_001}, "policy.max_attempts: 1000001 is not a number from 1 to 1e+06"),
        ({"max_in_flight": 1.5}, "policy.max_in_flight: 1.5 is not a whole number"),
        ({"max_age": 0}, "policy.max_age: 0 would retry without a pause; give at least 1ms"),
        ({"max_in_flight": 0}, "policy.max_in_flight: 0 is not a number from 1 to 1e+06"),
        ({"factor": "many"}, "policy.factor: 'many' is not a number from 1 to 1000"),
        ({"factor": None}, "policy.factor: None is not a number from 1 to 1000"),
        ({"rate": 5}, "policy.rate: 5 is not a rate; write 10/s, 300/m or 1000/h"),
        ({"rate": "9" * 400 + "/s"}, f"policy.rate: '{'9' * 400}/s' is not a rate; write 10/s, 300/m or 1000/h"),
        ({"on_dead": "SKIP"}, "policy.on_dead: 'SKIP' is not known; write skip or block"),
        (
            {"speed": 1},
            (
                "policy has no setting 'speed'; it knows base, cap, factor, jitter, max_age, max_attempts,"
                " max_in_flight, on_dead, rate, schedule, timeout"
            ),
        ),
    ],
)
def test_what_is_refused_is_named_with_its_remedy(values, message):
    with pytest.raises(InvalidSettings) as refused:
        parse_policy(values, Policy())
    assert str(refused.value) == message


def test_tries_of_a_schedule_are_counted_unless_given():
    assert parse_policy({"schedule": ["1s", "2s"]}, Policy()).max_attempts == 3
    assert parse_policy({"schedule": ["1s", "2s"], "max_attempts": 9}, Policy()).max_attempts == 9


@pytest.mark.parametrize(("values", "schedule"), [
    ({"base": "2s"}, None), ({"factor": 3}, None), ({"cap": "5m"}, None),
    ({"timeout": "5s"}, (7.0,)), ({}, (7.0,)), ({"base": "2s", "schedule": ["4s"]}, (4.0,)),
])  # fmt: skip
def test_only_a_step_of_the_exponential_replaces_a_schedule(values, schedule):
    assert parse_policy(values, Policy(schedule=(7.0,))).schedule == schedule


def test_the_exponential_is_one_value_by_value():
    policy = Policy(base=2.0, factor=3.0, cap=100.0, jitter=0.0)
    waits = [wait_seconds(policy, tries, retry_after=None, spread=0.0) for tries in range(1, 6)]
    assert waits == [2.0, 6.0, 18.0, 54.0, 100.0]
    assert wait_seconds(Policy(base=200.0, factor=3.0, cap=100.0, jitter=0.0), 1, retry_after=None, spread=0.0) == 100.0


@pytest.mark.parametrize(("seconds", "written"), [
    (0.0, "0s"), (0.25, "250ms"), (0.999, "999ms"), (0.001, "1ms"),
    (1.0, "1s"), (90.0, "1.5m"), (3600.0, "1h"), (86400.0, "1d"),
])  # fmt: skip
def test_durations_are_written_as_people_do(seconds, written):
    assert format_duration(seconds) == written


def test_nothing_and_a_leap_year_are_durations_and_more_is_not():
    assert parse_duration(0, "x") == 0.0
    assert parse_duration(366 * 86400, "x") == 366 * 86400.0
    for value in (366 * 86400 + 1, 10**400, -1, math.nan, True):
        with pytest.raises(InvalidSettings, match=r"^x: .* is not a duration; write 0\.2s, 5m, 24h or 5d"):
            parse_duration(value, "x")
