"""Every field case has a test, and the table that says so is up to date."""

from __future__ import annotations

from tests.cases import CASES, TESTS, covered, table


def test_every_case_has_at_least_one_test():
    assert [case for case, tests in covered().items() if not tests] == []


def test_no_test_is_named_after_a_case_that_does_not_exist():
    assert set(covered()) <= set(CASES) | {"W05"}


def test_the_table_of_cases_is_up_to_date():
    assert (TESTS / "README.md").read_text() == table(), "run python -m tests.cases"
