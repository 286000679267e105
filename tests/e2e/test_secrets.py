"""W12: planted secrets in nothing that a command or a relay prints, nor in any row but the settings that hold them."""

from __future__ import annotations

import psycopg
import pytest
import typer

from outbox.cli import app
from tests.commands import outbox
from tests.processes import relay_process
from tests.queues import add_destination, record
from tests.receivers import Receiver, status
from tests.waiting import wait_until

ONCE = {"schedule": ["0.2s"], "max_attempts": 1, "timeout": "3s"}
SIGNING = "whsec_SECRET5SECRET5SECRET5SECRET5abcd"
HOOKS = f"""
[destinations.hooks]
sink = "webhook"
events = ["order.*"]
settings = {{ url = "https://shop.example/SECRET2?token=SECRET3", secret = "{SIGNING}" }}
"""

# Each command with arguments that make it work on what is planted; in this order, for they change it.
LINES = {
    "check": [],
    "status": [],
    "doctor": [],
    "record": ["order.paid", "{}", "--destination", "hooks"],
    "destinations list": ["--json"],
    "destinations show": ["hooks", "--json"],
    "destinations add": [
        "more",
        "--sink",
        "webhook",
        "--set",
        "url=https://x.example/SECRET2",
        "--set",
        "tokne=SECRET4",
    ],
    "destinations set": ["hooks", "--set", f"secret={SIGNING}", "--set", "headers={'authorization': 'Bearer SECRET4'"],
    "destinations pause": ["hooks", "--reason", "testing"],
    "destinations resume": ["hooks"],
    "destinations test": ["hooks", "--json"],
    "destinations rotate-secret": ["hooks", "--secret", "env:NO_SUCH_SECRET_HERE"],
    "dead list": ["--json"],
    "dead show": ["{event}"],
    "dead redrive": ["--event", "{event}", "--yes"],
    "dead discard": ["--destination", "mail", "--yes"],
    "replay": ["--destination", "hooks", "--yes", "--json"],
    "apply": ["{file}", "--dry-run"],
    "prune": ["--json"],
    "adopt": ["--yes"],
    "migrate": [],
    "destinations remove": ["hooks", "--yes"],
}
WITHOUT_DATABASE_OF_OURS = {"demo"}


def words(command, path=()):
    """Yield each command that does something, as the words that lead to it."""
    below = getattr(command, "commands", {})
    for name, child in below.items():
        yield from words(child, (*path, name))
    if not below:
        yield " ".join(path)


@pytest.fixture
def planted(database) -> tuple[psycopg.Connection, str]:
    """Secrets wherever an operator puts them, and an event that both destinations refuse."""
    echo = status(500, f"SECRET2 SECRET3 Bearer SECRET4 {SIGNING}".encode())
    with Receiver(echo) as receiver, database.connect() as connection:
        settings = {
            "url": receiver.url("/services/SECRET2?token=SECRET3"),
            "headers": {"authorization": "Bearer SECRET4"},
            "secret": SIGNING,
            "allow_http": True,
            "allow_networks": ["127.0.0.0/8"],
        }
        add_destination(connection, "hooks", sink="webhook", settings=settings, policy=ONCE)
        login = {"host": "127.0.0.1", "port": 1, "username": "shop", "password": "SECRET7", "from": "s@example.com"}
        add_destination(connection, "mail", sink="email", settings={**login, "security": "plain"}, policy=ONCE)
        yield connection, record(connection, "mail.receipt", {"to": "a@example.com", "subject": "s", "text": "t"})


def with_password(dsn: str) -> str:
    """Return `dsn` with a password, which a server that trusts its socket does not look at."""
    return psycopg.conninfo.make_conninfo(dsn, password="SECRET6")


def texts_of_rows(connection) -> str:
    """Return every row of the schema as text, the settings of destinations left out."""
    tables = connection.execute(
        "select table_name from information_schema.tables where table_schema = 'outbox' and table_type = 'BASE TABLE'"
    ).fetchall()
    assert len(tables) > 5
    rows = [
        row
        for (table,) in tables
        for row in connection.execute(
            psycopg.sql.SQL("select to_jsonb(t) - 'settings' from outbox.{} t").format(psycopg.sql.Identifier(table))
        )
    ]
    return repr(rows)


def test_w12_no_secret_in_what_a_relay_prints_at_its_most_talkative_and_in_no_row(database, planted):
    connection, event = planted
    tried = "select count(distinct destination_id) from outbox.attempts where event_id = %s"
    with relay_process(with_password(database.dsn), "--debug", "--log-level", "debug") as relay:
        wait_until(lambda: connection.execute(tried, [event]).fetchone() == (2,), "both destinations were tried")
        relay.stop()
    assert "hooks" in relay.output
    assert "SECRET" not in relay.output
    assert "SECRET" not in texts_of_rows(connection)


@pytest.mark.parametrize("format_of_logs", ["console", "json"])
def test_w12_no_secret_in_the_traceback_of_a_relay_that_cannot_connect(format_of_logs):
    dsn = "postgresql://shop:SECRET6@127.0.0.1:1/shop?options=-cSECRET6"
    with relay_process(dsn, "--debug", "--log-level", "debug", "--log-format", format_of_logs, "--drain") as relay:
        wait_until(lambda: relay.lines, "it says what is wrong")
        relay.kill()
    assert "SECRET" not in relay.output


def test_w12_no_secret_in_what_any_command_prints(database, planted, tmp_path):
    connection, event = planted
    file = tmp_path / "outbox.toml"
    file.write_text(HOOKS)
    with relay_process(with_password(database.dsn)) as relay:
        dead = "select count(*) from outbox.attempts where event_id = %s and outcome = 'dead'"
        wait_until(lambda: connection.execute(dead, [event]).fetchone()[0] >= 1, "one is dead")
        relay.stop()
    for command, arguments in LINES.items():
        given = [
            argument.format(event=event, file=file) if argument in {"{event}", "{file}"} else argument
            for argument in arguments
        ]
        done = outbox("--debug", *command.split(), *given, dsn=with_password(database.dsn))
        assert done.output, command
        assert "SECRET" not in done.output.replace("NO_SUCH_SECRET_HERE", ""), command
    assert "SECRET" not in texts_of_rows(connection)


def test_every_command_is_looked_at():
    assert set(LINES) | WITHOUT_DATABASE_OF_OURS == set(words(typer.main.get_command(app)))
