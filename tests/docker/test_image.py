"""The image of deploy/Dockerfile, run as it is deployed: not root, on a read-only file system."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.queues import add_destination, count, record
from tests.receivers import Receiver, status

IN_CONTAINER = ["docker", "run", "--rm", "--network", "host", "--read-only", "--cap-drop", "ALL"]


@pytest.fixture
def in_container():
    """Return what runs a command in a container on the network of this machine."""
    image = os.environ["OUTBOX_TEST_RELAY_IMAGE"]  # noqa: TID251 - set by tests.docker

    def run(*command: str, dsn: str = "") -> subprocess.CompletedProcess:
        return subprocess.run(
            [*IN_CONTAINER, "--env", f"OUTBOX_DSN={dsn}", image, *command],
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_it_is_not_root(in_container):
    done = in_container("python3", "-c", "import os; print(os.getuid(), os.getgid())")
    assert done.stdout.split() == ["10001", "10001"], done.stderr


@pytest.mark.parametrize("command", ["outbox", "outbox-relay"])
def test_both_commands_explain_themselves(in_container, command):
    done = in_container(command, "--help")
    assert done.returncode == 0, done.stderr
    assert f"Usage: {command}" in done.stdout


def test_it_has_no_pip(in_container):
    assert in_container("/opt/outbox/bin/python", "-c", "import pip").returncode == 1


def test_it_migrates_and_drains(in_container, empty_database):
    assert in_container("outbox", "migrate", dsn=empty_database.dsn).returncode == 0
    assert in_container("outbox", "adopt", "--yes", dsn=empty_database.dsn).returncode == 0
    with Receiver(status(200)) as receiver, empty_database.connect() as connection:
        settings = {"url": receiver.url(), "allow_http": True, "allow_networks": ["127.0.0.0/8"]}
        settings["secret"] = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
        add_destination(connection, sink="webhook", settings=settings)
        record(connection)
        done = in_container("outbox-relay", "--drain", dsn=empty_database.dsn)
        assert done.returncode == 0, done.stderr
        assert count(connection, "deliveries") == 0
        assert len(receiver.requests) == 1
