"""The README runs from top to bottom as it stands there, and names nothing that does not exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
import typer

import outbox.cli
import relays.cli

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`(outbox(?:-relay)? [^`]+)`")
FOR_PEOPLE = ("pip install ", "export OUTBOX_DSN=")
"""Commands of the README that the test has done already, in its own way."""
SECONDS = 60


@dataclass(frozen=True)
class Played:
    """What the README's commands printed, and the database they worked on."""

    printed: dict[str, str]
    dsn: str

    def rows(self, statement: str, *parameters: str) -> list[tuple]:
        with psycopg.connect(self.dsn) as connection:
            return connection.execute(statement, parameters).fetchall()


@pytest.fixture
def played(empty_database, tmp_path) -> Played:
    """The README, played in a folder of its own: files written, commands run, SQL executed, all in its order."""
    printed = {}
    for block in BLOCK.finditer(README):
        match block["language"]:
            case "python":
                name = re.match(r"# (\w+\.py)\n", block["code"])
                assert name, f"a block of Python says no file name: {block['code']}"
                (tmp_path / name[1]).write_text(block["code"])
            case "console":
                for line in block["code"].splitlines():
                    command = line.removeprefix("$ ")
                    assert command != line, f"a line of the console is no command: {line}"
                    if not command.startswith(FOR_PEOPLE):
                        printed[command] = run(command, tmp_path, empty_database.dsn)
            case "sql":
                with empty_database.connect() as connection:
                    connection.execute(block["code"])
            case language:
                assert not language, f"nobody runs blocks of {language}"
    return Played(printed, empty_database.dsn)


def run(command: str, folder: Path, dsn: str) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # noqa: TID251 - handed on to the child, not read
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        cwd=folder,
        env={"PATH": path, "HOME": str(folder), "OUTBOX_DSN": dsn},
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def test_the_readme_runs_from_top_to_bottom(played):
    event_id = played.printed["python shop.py"].strip()
    assert played.rows("select type from outbox.events where id = %s", event_id) == [("order.paid",)]
    assert played.rows("select outcome::text, attempt from outbox.attempts where event_id = %s", event_id) == [
        ("delivered", 1)
    ]
    assert played.rows("select customer, packed_at is not null from orders") == [("ada", True)]
    assert "0 waiting" in played.printed["outbox status"]


def test_the_destinations_of_the_readme_are_there_at_the_end(played):
    assert played.rows("select name, sink from outbox.destinations order by name") == [
        ("packing", "handler"),
        ("partner", "webhook"),
        ("receipts", "email"),
    ]
    routed = (
        "select count(*) from outbox.deliveries d join outbox.events e on e.id = d.event_id where e.key = 'order-7'"
    )
    assert played.rows(routed) == [(2,)]


def test_every_command_in_the_text_exists_with_its_options():
    commands = INLINE.findall(README)
    assert len(commands) > 10
    for command in commands:
        program, *words = command.split()
        found = typer.main.get_command({"outbox": outbox.cli.app, "outbox-relay": relays.cli.app}[program])
        while hasattr(found, "commands") and words and not words[0].startswith("-"):
            assert words[0] in found.commands, command
            found = found.commands[words.pop(0)]
        options = {name for parameter in found.params for name in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, command


def test_every_option_in_the_text_belongs_to_a_command():
    stack = [typer.main.get_command(app) for app in (outbox.cli.app, relays.cli.app)]
    options = set()
    while stack:
        command = stack.pop()
        options |= {name for parameter in command.params for name in parameter.opts}
        stack += getattr(command, "commands", {}).values()
    assert set(re.findall(r"(?<=`)--[a-z-]+", README)) <= options


def test_the_make_targets_exist():
    targets = re.findall(r"^ {4}make (\w+)", README, re.MULTILINE)
    assert targets == ["demo", "test"]
    makefile = (ROOT / "Makefile").read_text()
    assert all(f"\n{target}:" in makefile for target in targets)


def test_links_to_files_lead_somewhere():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
