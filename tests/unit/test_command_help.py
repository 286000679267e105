"""Every command and option explains itself, and asking costs no heavy import."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from outbox.cli import app

RUNNER = CliRunner()
GROUPS = {
    "": "migrate check record status apply replay prune adopt doctor demo destinations dead",
    "destinations ": "list add set show pause resume remove test rotate-secret",
    "dead ": "list show redrive discard",
}
COMMANDS = {group + verb for group, verbs in GROUPS.items() for verb in verbs.split()}


def tree(command, path=()):
    """Yield each command with the words that lead to it."""
    for name, child in getattr(command, "commands", {}).items():
        yield (*path, name), child
        yield from tree(child, (*path, name))


FOUND = dict(tree(typer.main.get_command(app)))


def test_the_commands_are_those_of_the_design():
    assert {" ".join(path) for path in FOUND} == COMMANDS


@pytest.mark.parametrize("path", sorted(FOUND.keys() - {("demo",)}), ids=" ".join)  # hands --help on to the demo
def test_each_command_says_what_it_does(path):
    done = RUNNER.invoke(app, [*path, "--help"], prog_name="outbox", env={"COLUMNS": "100"})
    assert done.exit_code == 0, done.output
    command = FOUND[path]
    assert command.help, "no help"
    first_line = command.help.splitlines()[0]
    assert re.match(r"[A-Z].*[.:]|[A-Z]", first_line)
    assert "outbox " + " ".join(path) in done.output


@pytest.mark.parametrize("path", sorted(FOUND), ids=" ".join)
def test_each_option_says_what_it_is_for(path):
    for parameter in FOUND[path].params:
        if parameter.param_type_name == "option":
            assert parameter.help, f"{parameter.opts[0]} of {' '.join(path)}"
            assert parameter.help.endswith((".", ")")), parameter.help


@pytest.mark.parametrize(
    "path", [("status",), ("check",), ("doctor",), ("destinations", "list"), ("destinations", "show"), ("dead", "list")]
)
def test_what_lists_rows_has_json(path):
    assert any("--json" in parameter.opts for parameter in FOUND[path].params)


def test_the_command_itself_names_its_exit_codes():
    done = RUNNER.invoke(app, ["--help"])
    assert done.exit_code == 0
    said = " ".join(done.output.split())
    assert "0 done, 1 failed, 2 usage, 3 database unreachable, 4 schema missing or mismatched" in said


def test_a_wrong_command_line_ends_with_2():
    assert RUNNER.invoke(app, ["statsu"]).exit_code == 2
    assert RUNNER.invoke(app, ["status", "--wacht"]).exit_code == 2
    assert RUNNER.invoke(app, ["dead", "redrive", "--limit", "0"]).exit_code == 2


def test_looking_at_the_command_loads_no_web_library():
    code = (
        "import sys, outbox.cli; print(*sorted({name.partition('.')[0] for name in sys.modules}"
        " & {'aiohttp', 'aiosmtplib', 'httpx2', 'relays', 'tenacity'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == ""
