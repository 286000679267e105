"""What `make matrix` runs."""

from __future__ import annotations

import subprocess
import sys

from tests.matrix.__main__ import POSTGRES, full, short
from tests.matrix.pythons import SUPPORTED, absent, found, running


def test_each_python_found_is_the_version_it_is_found_for():
    for python in found():
        asked = [python.program, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip() == python.version


def test_every_postgresql_every_python_and_the_oldest_dependencies_are_run():
    lines = full(["tests"])
    assert {line.postgres for line in lines} == set(POSTGRES)
    assert {line.python for line in lines if line.dependencies == "newest"} == set(found())
    assert [line.python for line in lines if line.dependencies == "oldest"] == found()[:1]


def test_the_short_form_runs_the_oldest_postgresql_first_and_at_most_one_other_python():
    lines = short()
    assert [line.postgres for line in lines[:2]] == ["14", "16"]
    assert {line.python for line in lines[:2]} == {running()}
    assert len(lines) <= 3
    assert running().version == f"{sys.version_info.major}.{sys.version_info.minor}"


def test_a_version_is_either_found_or_said_to_be_absent():
    assert sorted([*absent(), *(python.version for python in found())]) == list(SUPPORTED)
