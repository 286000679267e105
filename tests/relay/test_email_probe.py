"""`outbox destinations test` on a mail destination: each step up to the sender, and no mail."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest

from relays.sinks.email import EmailSink
from tests.certificates import Authority
from tests.mail_deliveries import destination
from tests.mail_server import MailServer, reply
from tests.queues import add_destination

PASSWORD = "correct horse battery"


def probe(server, **settings):
    """Return the steps as (name, is_ok, detail)."""
    report = asyncio.run(EmailSink().probe(destination(server, **settings)))
    return [(step.name, step.is_ok, step.detail) for step in report.steps]


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


def test_a_good_server_passes_every_step_and_gets_no_mail(authority):
    with MailServer(tls=authority.server_context("127.0.0.1"), users={"shop": PASSWORD}) as server:
        steps = probe(server, security="starttls", ca_file=authority.file, username="shop", password=PASSWORD)
        assert server.mails == []
    assert [name for name, _, _ in steps] == [
        "settings",
        "connect",
        "hello",
        "starttls",
        "hello again",
        "login",
        "sender",
    ]
    details = {name: detail for name, is_ok, detail in steps if is_ok}
    assert "TLSv1.3, certificate valid until" in details["starttls"]
    assert details["login"].startswith("as shop, by ")
    assert details["sender"] == "shop@example.com may send"
    assert PASSWORD not in str(steps)


@pytest.mark.parametrize(
    ("faults", "settings", "step", "said"),
    [
        ({"greeting": [reply("554 5.3.2 no service", close=True)]}, {}, "connect", "554"),
        ({}, {"security": "starttls"}, "starttls", "does not offer STARTTLS"),
        ({}, {"username": "shop", "password": "x"}, "login", "no login we know is offered"),
        ({"MAIL": [reply("550 5.7.1 not yours")]}, {}, "sender", "550 5.7.1 not yours"),
        ({}, {"password": "env:NOT_SET_ANYWHERE", "username": "shop"}, "settings", "NOT_SET_ANYWHERE"),
        ({}, {"security": "none"}, "settings", "security"),
    ],
)
def test_it_ends_at_the_step_that_fails_and_says_why(faults, settings, step, said):
    with MailServer(**faults) as server:
        steps = probe(server, **settings)
    assert [is_ok for _, is_ok, _ in steps] == [True] * (len(steps) - 1) + [False]
    name, _, detail = steps[-1]
    assert name == step
    assert said in detail


def test_the_command_shows_the_steps(database):
    with MailServer() as server, database.connect() as connection:
        settings = {"host": "127.0.0.1", "port": server.port, "security": "plain", "from": "shop@example.com"}
        add_destination(connection, "mail", sink="email", settings=settings)
        command = ["-m", "outbox", "destinations", "test", "mail", "--json", "--dsn", database.dsn]
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [step["name"] for step in json.loads(done.stdout)["steps"]] == ["settings", "connect", "hello", "sender"]
