"""A sink in a package of its own: built, installed beside ours, used by the commands; and what the README shows."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import relay_process
from tests.queues import attempts, count, record

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "tests" / "plugin_example"
README = ROOT / "relays" / "sinks" / "README.md"
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(language: str) -> list[str]:
    return [match["code"] for match in BLOCK.finditer(README.read_text()) if match["language"] == language]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder with the example package, built as a wheel and installed from it."""
    wheels, target = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", wheels, EXAMPLE], check=True)
    [wheel] = wheels.glob("outbox_file_sink-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", target, wheel], check=True)
    return target


@pytest.fixture
def importable(installed, monkeypatch):
    """The installed package on this process's path."""
    monkeypatch.syspath_prepend(str(installed))
    importlib.invalidate_caches()
    yield importlib.import_module("outbox_file_sink")
    sys.modules.pop("outbox_file_sink")


def outbox(database, installed, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "outbox", *arguments, "--dsn", database.dsn],
        env={**os.environ, "PYTHONPATH": str(installed)},  # noqa: TID251 - handed on to the child, not read
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_installed_sink_delivers(database, installed, tmp_path):
    path = tmp_path / "orders.jsonl"
    added = outbox(
        database,
        installed,
        "destinations",
        "add",
        "audit",
        "--sink",
        "file",
        "--events",
        "order.*",
        "--set",
        f"path={path}",
    )
    assert added.returncode == 0, added.stderr
    with database.connect() as connection:
        ids = [record(connection, payload={"n": n}) for n in range(20)]
        with relay_process(database.dsn, "--drain", environment={"PYTHONPATH": str(installed)}) as relay:
            assert relay.ended() == 0
        assert count(connection, "deliveries") == 0
        assert [row[2] for row in attempts(connection, ids[0])] == ["delivered"]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(line["id"] for line in lines) == sorted(ids)
    assert {line["data"]["n"] for line in lines} == set(range(20))


def test_a_sink_that_is_not_installed_is_refused_with_those_that_are(database, tmp_path):
    added = outbox(database, tmp_path, "destinations", "add", "audit", "--sink", "file", "--events", "*")
    assert added.returncode == 2
    assert "no sink 'file' is installed here" in added.stderr
    assert "webhook" in added.stderr


def test_a_relay_without_the_sink_says_so_and_leaves_its_events_alone(database):
    with database.connect() as connection:
        connection.execute("insert into outbox.destinations (name, sink, event_types) values ('audit', 'file', '{*}')")
        record(connection)
        with relay_process(database.dsn) as relay:
            relay.wait_for("destination audit is not served here: no sink 'file' is installed here")
            assert relay.stop() == 0
        assert connection.execute("select attempt, lease_token from outbox.deliveries").fetchall() == [(0, None)]


def test_the_readme_shows_the_example_package_in_fifteen_lines():
    code = blocks("python")[0]
    assert code == (EXAMPLE / "outbox_file_sink.py").read_text()
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    [entry_point] = blocks("toml")
    assert entry_point in (EXAMPLE / "pyproject.toml").read_text()


def test_the_readmes_contract_test_passes(importable):
    code = next(code for code in blocks("python") if "SinkContract" in code)
    names: dict[str, object] = {"__name__": "readme"}
    exec(compile(code, str(README), "exec"), names)  # noqa: S102 - our own README
    contract = names["TestFileSink"]()
    tests = [test for name in dir(contract) if name.startswith("test_") and (test := getattr(contract, name))]
    assert len(tests) > 8
    for test in tests:
        test()


def test_the_readmes_handlers_do_what_it_says(database, tmp_path):
    code = next(code for code in blocks("python") if "relays.handler" in code)
    (tmp_path / "readme_handlers.py").write_text(code)
    with database.connect() as connection:
        connection.execute("create table reserved (event_id uuid)")
        outbox(database, tmp_path, "destinations", "add", "work", "--sink", "handler", *("--events", "order.paid"),
               *("--events", "stock.*"), *("--events", "page.viewed"))  # fmt: skip
        record(connection, "order.paid", {"amount": 5})
        reserved = record(connection, "stock.taken")
        good, bad = record(connection, "page.viewed", {"url": "/"}), record(connection, "page.viewed", {})
        options = ("--app", "readme_handlers", "--drain")
        with relay_process(database.dsn, *options, environment={"PYTHONPATH": str(tmp_path)}) as relay:
            assert relay.ended() == 0
        assert connection.execute("select event_id::text from reserved").fetchall() == [(reserved,)]
        assert [row[2] for row in attempts(connection, good)] == ["delivered"]
        assert [row[2:] for row in attempts(connection, bad)] == [("dead", "gave_up")]
