"""The protocols hold in every interleaving within the bounds, and each variant is found guilty (negative controls)."""

from __future__ import annotations

import pytest

from tests.model.catalogue import HOLDING, VARIANTS, Case
from tests.model.explorer import explore


def named(cases: list[Case]):
    return [pytest.param(case, id=case.name) for case in cases]


@pytest.mark.parametrize("case", named(HOLDING))
def test_the_protocol_holds_in_every_interleaving(case):
    found = explore(case.model)
    assert found.fault is None, f"\n{found}"
    assert found.states > 1000, "the bounds leave nothing to explore"


@pytest.mark.parametrize("case", named(VARIANTS))
def test_the_variant_fails_with_a_trace(case):
    found = explore(case.model)
    assert found.fault is not None, f"{case.name} went unnoticed in {found.states} states"
    assert case.fault in found.fault, f"\n{found}"
    assert found.trace
