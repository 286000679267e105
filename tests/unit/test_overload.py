"""Stepping back from an overloaded destination: halved once per round, one more with every round delivered."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from relays.overload import Overload


def deliveries_until(overload: Overload, limit: int | None) -> int:
    """Return how many deliveries it takes to be allowed `limit`."""
    for number in range(1000):
        if overload.limit == limit:
            return number
        overload.delivered()
    raise AssertionError(f"{limit} is never allowed")


def test_nothing_is_limited_before_the_first_overload():
    overload = Overload()
    overload.delivered()
    assert overload.limit is None


def test_each_round_of_overload_halves_down_to_one():
    overload = Overload()
    limits = []
    for now in range(1, 6):
        overload.refused(float(now), started=float(now), in_flight=overload.limit or 16)
        limits.append(overload.limit)
    assert limits == [8, 4, 2, 1, 1]


def test_answers_to_what_was_under_way_at_the_cut_halve_no_further():
    overload = Overload()
    cuts = [overload.refused(10.0 + n, started=9.0, in_flight=16 - n) for n in range(16)]
    assert cuts == [True] + [False] * 15
    assert overload.limit == 8
    assert overload.refused(30.0, started=20.0, in_flight=8)
    assert overload.limit == 4


def test_growth_is_one_per_round_until_it_is_what_it_was():
    overload = Overload()
    overload.refused(1.0, started=0.0, in_flight=8)
    assert overload.limit == 4
    for limit, more in ((4, 5), (5, 6), (6, 7), (7, None)):
        assert limit <= deliveries_until(overload, more) <= limit + 1


def test_overload_of_a_single_attempt_is_over_with_the_next_delivery():
    overload = Overload()
    overload.refused(1.0, started=0.0, in_flight=1)
    assert overload.limit == 1
    overload.delivered()
    assert overload.limit is None


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 500)), max_size=200))
def test_one_attempt_is_always_allowed_and_never_more_than_before(steps):
    overload = Overload()
    for now, (is_overload, in_flight) in enumerate(steps):
        allowed = in_flight if overload.limit is None else min(in_flight, overload.limit)
        if is_overload:
            overload.refused(float(now), started=float(now), in_flight=allowed)
            assert overload.limit == max(allowed // 2, 1)
        else:
            overload.delivered()
        assert overload.limit is None or 1 <= overload.limit <= overload.before


@given(st.integers(1, 50), st.integers(0, 8))
def test_deliveries_alone_always_lift_the_limit(in_flight, cuts):
    overload = Overload()
    for now in range(cuts + 1):
        overload.refused(float(now), started=float(now), in_flight=min(in_flight, overload.limit or in_flight))
    for _ in range(in_flight * (in_flight + 1)):
        overload.delivered()
    assert overload.limit is None
