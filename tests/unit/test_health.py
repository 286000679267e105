from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.model import Certainty
from relays.health import DEFAULT_LIMITS, Breaker, Limits, after_failing, after_probe, blames_destination, ramp
from relays.results import Delivered, Hold, Refused

FAILED = Refused("http_500", status=500)
DAY = 86400.0


@pytest.mark.parametrize(
    ("result", "blamed"),
    [
        (Delivered(status=200), False),
        (FAILED, True),
        (Refused("timeout", certainty=Certainty.AMBIGUOUS), True),
        (Refused("connect_failed", certainty=Certainty.NOT_SENT), True),
        (Refused("http_401", status=401), True),
        (Refused("http_413", permanent=True), None),
        (Refused("setting_missing", charged=False), None),
        (Refused("http_429", retry_after=5, hold=Hold("held", "later", 5)), None),
        (Refused("http_429", status=429), None),
        (Refused("smtp_450", status=450, is_delivery_only=True), None),
        (Refused("http_410", permanent=True, hold=Hold("disabled", "gone")), None),
    ],
)
def test_what_counts_against_a_destination(result, blamed):
    assert blames_destination(result) is blamed


def feed(breaker: Breaker, *outcomes: bool, start: float = 0.0, step: float = 1.0) -> list[Hold]:
    holds = [breaker.observe(start + n * step, is_failure=failed) for n, failed in enumerate(outcomes)]
    return [hold for hold in holds if hold is not None]


def test_ten_failures_in_a_row_trip():
    (hold,) = feed(Breaker(), *[True] * 10)
    assert (hold.state, hold.seconds) == ("tripped", 30)
    assert hold.reason == "10 of 10 attempts failed within 1m; one probe decides whether it goes on"


def test_nine_do_not_and_successes_between_keep_it_active():
    assert feed(Breaker(), *[True] * 9) == []
    assert feed(Breaker(), *[True, True, False] * 50) == []


def test_failures_older_than_the_window_are_forgotten():
    assert feed(Breaker(), *[True] * 1000, step=DEFAULT_LIMITS.window / 9) == []


def test_trip_forgets_its_window():
    assert len(feed(Breaker(), *[True] * 19)) == 1
    assert len(feed(Breaker(), *[True] * 20)) == 2


def test_a_success_never_trips():
    breaker = Breaker()
    feed(breaker, *[True] * 9)
    assert breaker.observe(9, is_failure=False) is None


@given(st.lists(st.tuples(st.floats(0, 30), st.booleans()), max_size=200))
def test_breaker_trips_exactly_when_share_and_number_of_the_window_say_so(steps):
    """Against a plain list of everything seen, allowing for the width of a slice."""
    breaker, now = Breaker(), 0.0
    seen: list[tuple[float, bool]] = []
    width = DEFAULT_LIMITS.window / Breaker.SLICES
    for pause, failed in steps:
        now += pause
        seen.append((now, failed))
        hold = breaker.observe(now, is_failure=failed)
        exact = [is_failure for at, is_failure in seen if at > now - DEFAULT_LIMITS.window + width]
        wide = [is_failure for at, is_failure in seen if at > now - DEFAULT_LIMITS.window - width]
        if hold is not None:
            assert failed
            assert sum(wide) >= DEFAULT_LIMITS.least_failures
            seen.clear()
        elif failed and len(exact) == len(wide):
            is_due = sum(exact) >= DEFAULT_LIMITS.least_failures and sum(exact) >= DEFAULT_LIMITS.share * len(exact)
            assert not is_due


@given(st.integers(1, 10_000))
def test_breaker_keeps_no_more_than_its_slices(count):
    breaker = Breaker()
    for n in range(min(count, 500)):
        breaker.observe(n * 0.1, is_failure=False)
    assert len(breaker._slices) <= Breaker.SLICES + 1


def test_probe_that_is_delivered_makes_it_active():
    assert after_probe(Delivered(status=200), 3600, spread=0.5) is None


@pytest.mark.parametrize("result", [Refused("http_413", permanent=True), Refused("x", charged=False)])
def test_probe_that_says_nothing_about_the_destination_makes_it_active(result):
    assert after_probe(result, 3600, spread=0.5) is None


def test_waits_double_up_to_an_hour():
    tripped, waits = 30.0, []
    for _ in range(12):
        hold = after_probe(FAILED, tripped, spread=0.0)
        waits.append(hold.seconds)
        tripped += hold.seconds
    assert waits == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600, 3600, 3600]


@given(st.floats(0, 30 * DAY), st.floats(0, 0.999))
def test_wait_is_bounded_whatever_the_time(tripped, spread):
    hold = after_probe(FAILED, tripped, spread=spread)
    if tripped >= DEFAULT_LIMITS.disable_after:
        assert (hold.state, hold.seconds) == ("disabled", None)
        assert "http_500" in hold.reason
    else:
        assert hold.state == "tripped"
        assert DEFAULT_LIMITS.first_wait <= hold.seconds <= DEFAULT_LIMITS.longest_wait * 1.2


def test_destination_is_disabled_after_five_days_and_not_before():
    assert after_probe(FAILED, 5 * DAY - 1, spread=0).state == "tripped"
    assert after_probe(FAILED, 5 * DAY, spread=0).reason == "failing for 5d, lately with http_500; resume it"


@pytest.mark.parametrize(
    ("seconds", "failures", "events", "is_disabled"),
    [(5 * DAY, 10, 2, True), (5 * DAY - 1, 1000, 9, False), (30 * DAY, 9, 9, False), (30 * DAY, 99, 1, False)],
)
def test_rare_events_that_all_fail_for_five_days_disable_too(seconds, failures, events, is_disabled):
    hold = after_failing(seconds, failures, events)
    assert (hold is not None) is is_disabled
    if hold is not None:
        assert (hold.state, hold.reason) == ("disabled", "all 10 attempts of 5d failed; resume it")


@given(st.integers(1, 10_000), st.floats(0, 1e9))
def test_ramp_begins_with_one_grows_and_never_passes_the_limit(limit, seconds):
    assert ramp(limit, 0.0) == 1
    assert ramp(limit, -1.0) == 1
    assert 1 <= ramp(limit, seconds) <= ramp(limit, seconds + 1) <= limit
    assert ramp(limit, 64.0) == limit


def test_what_left_the_window_counts_no_more_whatever_came_before():
    breaker = Breaker()
    assert feed(breaker, *[True] * 9) == []
    assert feed(breaker, *[False] * 9, start=10.0) == []
    later = DEFAULT_LIMITS.window + 30.0
    assert feed(breaker, *[True] * 9, start=later) == []
    (hold,) = feed(breaker, True, start=later + 10.0)
    assert hold.reason.startswith("10 of 10 attempts failed")


def test_a_slice_holds_all_that_came_within_its_width():
    breaker = Breaker()
    width = DEFAULT_LIMITS.window / Breaker.SLICES
    feed(breaker, *[False] * 40, step=0.0)
    (hold,) = feed(breaker, *[True] * 10, start=DEFAULT_LIMITS.window + width, step=0.0)
    assert hold.reason.startswith("10 of 10 attempts failed"), "the forty left together"


def test_a_probe_that_fails_says_for_how_long_and_with_what():
    assert after_probe(FAILED, 120.0, spread=0.0) == Hold(
        "tripped", "tripped for 2m; the last probe ended with http_500", 120.0
    )
    assert after_probe(FAILED, 5 * DAY, spread=0.0) == Hold(
        "disabled", "failing for 5d, lately with http_500; resume it"
    )


@pytest.mark.parametrize(("seconds", "room"), [(0, 1), (1, 2), (2, 4), (3, 8), (4, 10), (5, 10), (10**6, 10)])
def test_the_ramp_doubles_each_second_up_to_the_limit(seconds, room):
    assert ramp(10, seconds) == room


def test_the_ramp_takes_its_pace_from_the_limits():
    assert [ramp(100, 1.0, Limits(ramp=pace)) for pace in (0.25, 0.5, 1.0, 2.0)] == [16, 4, 2, 1]


def test_failures_leave_the_window_one_slice_after_the_other():
    breaker = Breaker()
    window = DEFAULT_LIMITS.window
    assert feed(breaker, *[True] * 3, start=0.0, step=0.0) == []
    assert feed(breaker, *[True] * 6, start=window / 2, step=0.0) == []
    assert feed(breaker, *[True] * 3, start=window, step=0.0) == [], "the first three have left: nine"
    (hold,) = feed(breaker, True, start=window, step=0.0)
    assert hold.reason.startswith("10 of 10 attempts failed")
