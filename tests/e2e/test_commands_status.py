"""`outbox status`, `check` and `record` as processes: exit codes, shapes, and what goes where."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

from tests.commands import outbox
from tests.processes import relay_process
from tests.queues import add_destination, record
from tests.waiting import wait_until

OVERVIEW = {
    "database": {"server_version", "schema_version"},
    "totals": {"waiting", "scheduled", "leased", "held", "blocked", "dead", "oldest_waiting_seconds"},
    "relays": {"id", "name", "state", "heartbeat_age_seconds", "in_flight"},
    "destinations": {
        *("name", "sink", "state", "reason", "waiting", "scheduled", "leased", "held", "blocked", "dead"),
        *("oldest_waiting_seconds", "delivered_last_hour", "failed_last_hour"),
    },
    "problems": {"code", "message", "remedy"},
}
ATTEMPT = {
    *("attempt", "started_at", "duration_ms", "outcome", "reason", "certainty", "status", "detail", "relay"),
}


@pytest.fixture
def connection(database):
    with database.connect() as connection:
        yield connection


def test_the_overview_has_the_shape_that_is_promised(database, connection):
    add_destination(connection, "stock", sink="handler", event_types=["order.*"])
    record(connection)
    with relay_process(database.dsn, "--app", "tests.apps.waiting") as relay:
        relay.started()
        found = wait_until(
            lambda: shown if (shown := outbox("status", "--json", dsn=database.dsn).json)["totals"]["leased"] else None,
            "the delivery is leased",
        )
        assert found["relays"][0]["state"] == "running"
    for part, keys in OVERVIEW.items():
        entries = found[part] if isinstance(found[part], list) else [found[part]]
        assert all(keys <= entry.keys() for entry in entries), part


def test_a_timeline_has_the_shape_that_is_promised(database, connection):
    add_destination(connection, "stock", sink="handler", event_types=["order.paid"])
    event_id = record(connection, key="k")
    with relay_process(database.dsn, "--app", "tests.apps.shop", "--drain") as relay:
        assert relay.ended() == 0
    found = outbox("status", event_id, "--json", dsn=database.dsn).json
    assert found["event"].keys() == {"id", "type", "key", "recorded_at"}
    [delivery] = found["deliveries"]
    assert {"id", "destination", "state", "why", "next_attempt_at", "attempts"} <= delivery.keys()
    assert delivery["state"] == "delivered"
    assert delivery["attempts"][0].keys() == ATTEMPT
    shown = outbox("status", event_id, dsn=database.dsn).stdout
    assert event_id in shown
    assert "stock: delivered - delivered at" in shown


def test_an_unknown_event_ends_with_1_and_no_event_with_2(database):
    unknown = outbox("status", "01990000-0000-7000-8000-000000000000", dsn=database.dsn)
    assert (unknown.code, "rolled back, never recorded, or removed by retention" in unknown.stderr) == (1, True)
    assert outbox("status", "nonsense", dsn=database.dsn).code == 2
    assert outbox("status", "nonsense", "--check", dsn=database.dsn).code == 2


def test_o09_check_ends_with_1_on_trouble_and_with_0_on_an_empty_system(database, connection):
    quiet = outbox("status", "--check", dsn=database.dsn)
    assert (quiet.code, quiet.stdout) == (0, "no problem\n")
    add_destination(connection)
    record(connection)
    found = outbox("status", "--check", dsn=database.dsn)
    assert found.code == 1
    assert found.stdout.splitlines() == [
        "problem no_relay: no relay is alive and deliveries are open",
        "  -> start outbox-relay",
    ]
    assert outbox("check", dsn=database.dsn).code == 1
    assert [p["code"] for p in outbox("check", "--json", dsn=database.dsn).json["problems"]] == ["no_relay"]


def test_o09_an_unreachable_database_is_said_in_time_with_exit_code_3(database):
    with socket.socket() as listener:  # accepts and never answers
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        started = time.monotonic()
        silent = outbox("status", "--check", dsn=f"postgresql://u:SECRET6@127.0.0.1:{listener.getsockname()[1]}/shop")
        assert time.monotonic() - started < 60, "a monitor does not wait for ever"
    refused = outbox("status", dsn="postgresql://u:SECRET6@127.0.0.1:1/shop")
    for done in (silent, refused):
        assert (done.code, len(done.stderr.splitlines())) == (3, 1), done.output
        assert "no connection to database 'shop' on 127.0.0.1" in done.stderr
        assert "SECRET" not in done.output


def test_o09_a_missing_schema_is_said_with_exit_code_4(empty_database):
    for command in (("status", "--check"), ("record", "order.paid"), ("destinations", "list"), ("doctor",), ("check",)):
        done = outbox(*command, dsn=empty_database.dsn)
        assert done.code == 4, command
        assert re.search(r"run:? `?outbox migrate`?", done.stderr), done.stderr
    assert outbox("migrate", "--json", dsn=empty_database.dsn).json["version"] >= 6
    assert outbox("status", "--check", dsn=empty_database.dsn).code == 0


def test_no_dsn_is_a_usage_error_that_names_the_ways(monkeypatch):
    done = outbox("status")
    assert done.code == 2
    assert all(way in done.stderr for way in ("--dsn", "OUTBOX_DSN", "embedded:"))


def test_o09_all_paused_is_said(database, connection):
    add_destination(connection)
    record(connection)
    outbox("destinations", "pause", "shop", "--by", "ada", dsn=database.dsn)
    found = outbox("status", "--check", dsn=database.dsn)
    assert (found.code, "problem destination_paused" in found.stdout) == (1, True)
    assert "-> outbox destinations resume shop" in found.stdout


def test_what_can_go_wrong_when_recording_is_said_in_one_line(database, connection):
    add_destination(connection)
    for arguments, code, says in (
        (("order.paid", "{oops"), 2, "the payload is not JSON"),
        (("order paid",), 2, "type"),
        (("order.paid", "{}", "--destination", "nowhere"), 2, "nowhere"),
        (("order.paid", "{}", "--header", "x"), 2, "write NAME=VALUE"),
        (("order.paid", "{}", "--delay", "soon"), 2, "--delay"),
    ):
        done = outbox("record", *arguments, dsn=database.dsn)
        assert (done.code, len(done.stderr.splitlines())) == (code, 1), done.output
        assert says in done.stderr
    assert connection.execute("select count(*) from outbox.events").fetchone() == (0,)


def test_recording_prints_the_id_and_reads_a_pipe(database, connection):
    add_destination(connection)
    done = outbox("record", "order.paid", "-", "--key", "k", "--header", "x-a=1", dsn=database.dsn, stdin='{"n": 1.10}')
    assert done.code == 0, done.output
    [row] = connection.execute("select id::text, payload::text, key, headers ->> 'x-a' from outbox.events").fetchall()
    assert row == (done.stdout.strip(), '{"n": 1.10}', "k", "1")


def test_a_changed_idempotency_key_is_refused_and_names_the_first(database, connection):
    add_destination(connection)
    first = outbox("record", "order.paid", '{"n": 1}', "--idempotency-key", "x", "--json", dsn=database.dsn).json["id"]
    assert (
        outbox("record", "order.paid", '{"n": 1}', "--idempotency-key", "x", dsn=database.dsn).stdout.strip() == first
    )
    other = outbox("record", "order.paid", '{"n": 2}', "--idempotency-key", "x", dsn=database.dsn)
    assert other.code != 0
    assert first in other.stderr


def test_watching_redraws_until_interrupted(database, connection):
    add_destination(connection)
    primary, secondary = pty.openpty()
    environment = {**os.environ, "OUTBOX_DSN": database.dsn, "TERM": "xterm"}  # noqa: TID251 - handed on
    watching = subprocess.Popen(
        [sys.executable, "-m", "outbox", "status", "--watch"], stdout=secondary, stderr=subprocess.PIPE, env=environment
    )
    os.close(secondary)
    os.set_blocking(primary, False)
    seen = b""

    def shows(text: bytes) -> bool:
        nonlocal seen
        with contextlib.suppress(BlockingIOError):
            seen += os.read(primary, 65536)
        return text in seen

    try:
        wait_until(lambda: shows(b"0 waiting"), "the first picture")
        record(connection)
        wait_until(lambda: shows(b"1 waiting"), "the second picture")
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 0, watching.stderr.read()
    finally:
        watching.kill()
        os.close(primary)


@pytest.mark.parametrize("as_json", [True, False])
def test_watching_without_a_terminal_prints_one_overview_after_the_other(database, connection, as_json):
    add_destination(connection)
    watching = subprocess.Popen(
        [sys.executable, "-m", "outbox", "status", "--watch", "--dsn", database.dsn, *["--json"][: int(as_json)]],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        lines = (line for line in watching.stdout if "0 waiting" in line or '"waiting": 0' in line)
        first, second = next(lines), next(lines)
        assert json.loads(second)["totals"]["waiting"] == 0 if as_json else first == second
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) == 0
    finally:
        watching.kill()


def test_watching_and_checking_exclude_each_other(database):
    assert outbox("status", "--watch", "--check", dsn=database.dsn).code == 2


def test_json_goes_to_stdout_alone(database):
    done = outbox("status", "--json", dsn=database.dsn)
    assert json.loads(done.stdout)["totals"]["waiting"] == 0
    assert done.stderr == ""


def test_debug_shows_the_traceback_and_no_password():
    done = outbox("--debug", "status", dsn="postgresql://u:SECRET6@127.0.0.1:1/shop")
    assert "Traceback" in done.stderr
    assert "SECRET6" not in done.stderr
