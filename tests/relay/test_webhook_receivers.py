"""The receivers in the sink's README run as they stand there: they verify, and handle each event once."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from contextlib import contextmanager

import psycopg
import pytest

from relays.results import Delivered, Refused
from tests.waiting import wait_until
from tests.webhook_deliveries import EVENT_ID, SECRET, delivery, destination, send_all

OTHER_SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"

DJANGO_SETTINGS = """
import os
SECRET_KEY = "test"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "urls"
WEBHOOK_SECRET = os.environ["WEBHOOK_SECRET"]
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "", "OPTIONS": {"service": "receiver"}}}
"""
DJANGO_URLS = """
from django.urls import path
import receiver
urlpatterns = [path("hooks", receiver.hooks)]
"""
COMMANDS = {
    "FastAPI": ["-m", "uvicorn", "receiver:app", "--host", "127.0.0.1", "--port", "{port}"],
    "Flask": ["-m", "flask", "--app", "receiver", "run", "--port", "{port}"],
    "Django": ["-m", "django", "runserver", "--noreload", "--settings", "settings", "127.0.0.1:{port}"],
}


@pytest.fixture(scope="module")
def readme(root) -> str:
    return (root / "relays/sinks/webhook/README.md").read_text()


@pytest.fixture
def receiver_database(empty_database, readme):
    """A receiver's own database with the inbox as the README creates it."""
    with empty_database.connect() as connection:
        connection.execute(re.search(r"```sql\n(.*?)```", readme, re.DOTALL)[1])
        connection.execute("create table orders (total numeric)")
    return empty_database


@contextmanager
def running(framework: str, readme: str, folder, dsn: str):
    """Run the receiver of one framework as its own process; yield its URL."""
    code = re.search(rf"^{framework}:\n\n```python\n(.*?)```", readme, re.DOTALL | re.MULTILINE)[1]
    (folder / "receiver.py").write_text(code)
    (folder / "settings.py").write_text(DJANGO_SETTINGS)
    (folder / "urls.py").write_text(DJANGO_URLS)
    parameters = psycopg.conninfo.conninfo_to_dict(dsn)
    lines = [f"{name}={value}" for name, value in parameters.items()]
    (folder / "services").write_text("\n".join(["[receiver]", *lines, ""]))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {
        **os.environ,  # noqa: TID251 - for the receiver's process
        "WEBHOOK_SECRET": SECRET,
        "DATABASE_URL": dsn,
        "PGSERVICEFILE": str(folder / "services"),
    }
    command = [sys.executable, *(part.format(port=port) for part in COMMANDS[framework])]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        try:
            wait_until(lambda: _listens(port) or process.poll() is not None, "the receiver listens", 60)
            yield f"http://127.0.0.1:{port}/hooks"
        finally:
            process.kill()
            process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("framework", COMMANDS)
def test_receiver_of_the_readme_verifies_and_handles_each_event_once(framework, readme, receiver_database, tmp_path):
    with running(framework, readme, tmp_path, receiver_database.dsn) as url:
        to, forger = destination(url), destination(url, secret=OTHER_SECRET)
        broken = b'{"total": "not a number"}'
        first, again, forged, failed, repaired = send_all(
            delivery(to),
            delivery(to, attempt=2),
            delivery(forger, event_id="forged"),
            delivery(to, event_id="second", body=broken),
            delivery(to, event_id="second", body=b'{"total": "2.20"}'),
        )
    log = (tmp_path / "log").read_text()
    for one in (first, again, repaired):
        assert isinstance(one, Delivered), log
        assert one.status == 204
    assert isinstance(forged, Refused)
    assert forged.status == 401, log
    assert isinstance(failed, Refused)
    assert failed.status == 500, log
    with receiver_database.connect() as connection:
        totals = connection.execute("select total::text from orders order by 1").fetchall()
        assert totals == [("1.10",), ("2.20",)]
        noted = connection.execute("select event_id from outbox_inbox order by 1").fetchall()
        assert noted == [(EVENT_ID,), ("second",)]


def test_inbox_of_the_readme_is_the_one_of_the_package(readme):
    from outbox.inbox import CREATE_TABLE

    assert CREATE_TABLE + ";" in readme


def test_settings_of_the_readme_are_those_the_sink_knows(readme):
    from relays.sinks.webhook.settings import _SETTINGS

    table = readme.split("## Settings")[1].split("**Addresses.**")[0]
    named = set(
        re.findall(r"`([a-z_0-9]+)`", "\n".join(line.split("|")[1] for line in table.split("\n") if "|" in line))
    )
    assert named | {"previous_secrets", "http2", "proxy"} == _SETTINGS


def test_tests_that_the_readme_names_exist(readme, root):
    named = set(re.findall(r"`(test_[a-z0-9_]+)`", readme))
    written = {
        name
        for file in root.glob("tests/**/test_*.py")
        for name in re.findall(r"def (test_[a-z0-9_]+)\(", file.read_text())
    }
    assert len(named) >= 12
    assert named <= written
