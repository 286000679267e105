from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.shares import BURST_SECONDS, TokenBucket, in_flight_share, rate_share

fleets = st.integers(1, 50)


@given(st.integers(0, 10_000), fleets)
def test_shares_of_in_flight_add_up_to_the_limit_and_differ_by_one(limit, relays):
    shares = [in_flight_share(limit, relays, rank) for rank in range(relays)]
    assert sum(shares) == limit
    assert max(shares) - min(shares) <= 1
    assert shares == sorted(shares, reverse=True)


@given(st.floats(0.0001, 10_000), fleets)
def test_shares_of_a_rate_add_up_to_it(rate, relays):
    shares = [rate_share(rate, relays, rank) for rank in range(relays)]
    assert sum(shares) == pytest.approx(rate)
    assert shares[0] > 0


@given(st.floats(0.0001, 10_000), fleets)
def test_burst_of_the_fleet_is_no_more_than_the_rate_allows_in_a_second_or_one(rate, relays):
    buckets = [TokenBucket.full(rate_share(rate, relays, rank), 0.0) for rank in range(relays)]
    assert sum(bucket.available for bucket in buckets) <= max(rate * BURST_SECONDS, 1.0) + 1e-6


@given(
    st.floats(0.01, 1000),
    fleets,
    st.lists(st.tuples(st.integers(0, 49), st.floats(0, 5), st.integers(1, 1000)), max_size=100),
)
def test_fleet_never_takes_more_than_rate_times_time_plus_one_burst(rate, relays, steps):
    buckets = {rank: TokenBucket.full(rate_share(rate, relays, rank), 0.0) for rank in range(relays)}
    now, taken = 0.0, 0
    for who, pause, wanted in steps:
        now += pause
        bucket = buckets[who % relays].refilled(now)
        count = min(wanted, bucket.available)
        buckets[who % relays] = bucket.taken(count)
        taken += count
        assert taken <= rate * now + max(rate * BURST_SECONDS, 1.0) + 1e-6


@given(st.floats(0.01, 1000))
def test_token_is_there_after_the_wait_it_announces(rate):
    bucket = TokenBucket.full(rate, 0.0)
    empty = bucket.taken(bucket.available)
    assert empty.wait_seconds > 0
    assert empty.refilled(empty.wait_seconds).available == 1
    assert empty.refilled(empty.wait_seconds * 0.9).available == 0


def test_relay_without_a_share_waits_for_ever():
    bucket = TokenBucket.full(rate_share(0.5, 3, 2), 0.0)
    assert bucket.available == 0
    assert bucket.wait_seconds is None
    assert bucket.refilled(1e9).available == 0


def test_share_that_grows_when_a_relay_leaves_is_used_from_then_on():
    bucket = TokenBucket.full(5.0, 0.0)
    emptied = bucket.taken(bucket.available)
    assert emptied.refilled(1.0, rate=10.0).available == 5
    assert emptied.refilled(1.0, rate=10.0).refilled(2.0).available == 10
    assert emptied.refilled(1.0, rate=2.0).available == 2


@given(st.floats(0.1, 100), st.floats(0, 100), st.floats(0, 100))
def test_clock_that_stands_still_or_steps_back_gives_nothing(rate, now, back):
    bucket = TokenBucket(rate, 0.0, now)
    assert bucket.refilled(now - back).tokens == 0
