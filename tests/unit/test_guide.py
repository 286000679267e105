"""The operating guide says what there is: each problem, each metric, and commands that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from outbox.cli import app
from outbox.model import DeliveryState

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "outbox" / "README.md").read_text()
COMMANDS = sorted(
    {line[2:] for line in GUIDE.splitlines() if line.startswith("$ outbox ")}
    | {quoted for quoted in re.findall(r"`(outbox [a-z][^`…]*)`", GUIDE) if "--debug" not in quoted}
)


def names_in(path: str, pattern: str) -> set[str]:
    return set(re.findall(pattern, (ROOT / path).read_text()))


def test_each_problem_is_explained():
    codes = names_in("outbox/problems.py", r'yield "(\w+)"')
    codes |= {f"destination_{state}" for state in ("paused", "tripped", "disabled", "removed")}
    assert set(re.findall(r"^\| `(\w+)` \|", GUIDE, re.MULTILINE)) >= codes


def test_each_state_is_explained():
    assert all(f"`{state}`" in GUIDE for state in DeliveryState)


def test_each_metric_is_explained_and_no_other():
    served = names_in("relays/metrics.py", r'"(outbox_\w+)"')
    assert set(re.findall(r"`(outbox_[a-z_]+)`", GUIDE)) - {"outbox_reader", "outbox_relay", "outbox_writer"} == served


@pytest.mark.parametrize("line", COMMANDS)
def test_each_command_can_be_given_so(line):
    words = shlex.split(line)[1:]
    command, context = typer.main.get_command(app), None
    while hasattr(command, "commands"):
        context = command.make_context("outbox", [], resilient_parsing=True)
        command = command.get_command(context, words.pop(0))
        assert command is not None, line
    command.make_parser(context).parse_args(words)
