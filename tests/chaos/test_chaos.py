"""The shortened form of `python -m tests.chaos`: a new plan each time, for a fixed time."""

from __future__ import annotations

import secrets

import pytest

from tests.chaos.run import run

SECONDS = 60.0


@pytest.mark.timeout(1500)
def test_all_promises_hold_while_everything_breaks():
    seed = secrets.randbelow(10**6)
    replay = f"replay with: python -m tests.chaos --seed {seed} --minutes {SECONDS / 60:g}"
    print(replay)  # noqa: T201 - pytest shows it when the run fails by an exception
    report = run(seed, SECONDS)
    assert not report.complaints, "\n".join([replay, *report.lines()])
    assert report.events > 20, "the producers hardly recorded anything"
    assert report.requests > report.events, "most destinations saw nothing"
