"""A plan of faults is the same for the same seed, and leaves nothing out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.plan import Kind, fault_plan

SEEDS = st.integers(0, 10**9)


@given(SEEDS)
def test_a_seed_gives_one_plan(seed):
    first, second = (fault_plan(seed, 60, relays=3, receivers=2) for _ in range(2))
    assert first == second
    assert first != fault_plan(seed + 1, 60, relays=3, receivers=2)


@given(SEEDS)
def test_a_plan_of_75_seconds_has_every_kind_in_time_and_in_range(seed):
    faults = fault_plan(seed, 75, relays=3, receivers=2)
    assert {fault.kind for fault in faults} == set(Kind)
    assert faults == sorted(faults, key=lambda fault: fault.at)
    assert all(0 <= fault.at < 75 and fault.target < (2 if fault.kind.is_of_receiver else 3) for fault in faults)
