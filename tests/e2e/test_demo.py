"""The demo ends by itself, with every expected delivery exactly as expected, and its printed commands work."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SECONDS = 90
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def played():
    """The finished demo and the folder of its database."""
    with tempfile.TemporaryDirectory(prefix="outbox-demo-") as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "pg"
        done = subprocess.run(
            [sys.executable, "-m", "outbox", "demo", "--path", path],
            check=False,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            cwd=ROOT,
        )
        yield done, path


def test_every_expected_delivery_arrives_exactly_as_expected(played):
    done, _ = played
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every expected delivery arrived exactly as expected" in done.stdout


def test_the_demo_shows_what_it_promises(played):
    done, _ = played
    for words in ("rolled back, and therefore never sent", "http_503", "dead letters", "gave up after 3 of 3 tries"):
        assert words in done.stdout
    assert "Traceback" not in done.stderr
    assert "whsec_" not in done.stdout + done.stderr


def test_the_printed_commands_work_as_they_are_printed(played):
    done, path = played
    commands = [line.strip() for line in done.stdout.splitlines() if line.endswith(f"--dsn embedded:{path}")]
    assert len(commands) == 4
    for command in commands:
        again = subprocess.run(
            shlex.split(command), check=False, capture_output=True, text=True, timeout=SECONDS, cwd=ROOT
        )
        assert again.returncode == 0, (command, again.stderr)


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("keep me")
    done = subprocess.run(
        [sys.executable, "-m", "outbox", "demo", "--path", tmp_path], check=False, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "give another --path" in done.stderr
    assert (tmp_path / "mine.txt").read_text() == "keep me"
