"""The README's code runs as it stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.processes import relay_process
from tests.queues import add_destination, count, record
from tests.waiting import wait_until

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(language: str) -> list[str]:
    return [match["code"] for match in BLOCK.finditer(README.read_text()) if match["language"] == language]


@pytest.fixture
def shop(database):
    """A database with the tables the README's snippets write to."""
    with database.connect() as connection:
        connection.execute("create table orders (id serial primary key, customer text, total numeric)")
        connection.execute("create table reservations (order_id integer)")
        yield connection


def test_the_recording_snippet_records_one_event_however_often_it_runs(database, shop):
    recording = next(code for code in blocks("python") if "record_event" in code)
    code = f"DSN = {database.dsn!r}\n{recording}"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert shop.execute("select type, key, payload ->> 'total' from outbox.events").fetchall() == [
        ("order.paid", "order-1", "12.50")
    ]
    assert count(shop, "idempotency_keys") == 1


def test_the_sql_snippet_records_an_event(shop):
    [code] = blocks("sql")
    shop.execute(code.strip().rstrip(";"))
    assert shop.execute("select key from outbox.events").fetchall() == [("order-7",)]


def test_the_handler_snippet_works_exactly_once(database, shop, tmp_path):
    handler = next(code for code in blocks("python") if "relays.handler" in code)
    (tmp_path / "shop_handlers.py").write_text(handler)
    add_destination(shop, "stock", sink="handler", event_types=["order.paid"])
    record(shop, payload={"order_id": 7})
    with relay_process(
        database.dsn, "--app", "shop_handlers", "--drain", environment={"PYTHONPATH": str(tmp_path)}
    ) as relay:
        assert relay.ended() == 0
    assert shop.execute("select order_id from reservations").fetchall() == [(7,)]
    assert count(shop, "deliveries") == 0


def test_the_set_up_commands_work_as_written(empty_database, monkeypatch):
    lines = [line[2:] for code in blocks("console") for line in code.splitlines() if line.startswith("$ outbox ")]
    commands = [shlex.split(line, comments=True) for line in lines if "EVENT_ID" not in line]
    monkeypatch.setenv("OUTBOX_DSN", empty_database.dsn)
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", "outbox", *command[1:]], check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, (command, done.stderr)
    with psycopg.connect(empty_database.dsn) as connection:
        assert connection.execute("select name from outbox.destinations").fetchall() == [("shop",)]


def test_links_to_files_lead_somewhere(root):
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README.read_text()):
        assert (root / target).exists(), target


def test_waiting_names_what_it_waits_for():
    with pytest.raises(AssertionError, match="not within 0 s: the moon"):
        wait_until(lambda: False, "the moon", 0)
