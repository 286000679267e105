"""`outbox doctor`."""

from __future__ import annotations

import typer

from outbox.cli.options import Dsn, Json, connected
from outbox.cli.output import console, print_json
from outbox.doctor import Finding, Health, examine
from outbox.settings import dsn_setting

__all__ = ["register"]

STYLES = {Health.OK: "green", Health.WARNING: "yellow", Health.PROBLEM: "bold red"}


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(doctor)


def doctor(dsn: Dsn = None, *, as_json: Json = False) -> None:
    """Examine database, schema, relays and this machine; exit code 1 if there is a problem (not for warnings)."""
    found = []
    with connected(dsn) as connection:
        for finding in examine(connection, dsn_setting(dsn)):
            found.append(finding)
            if not as_json:
                _show(finding)
    if as_json:
        print_json(
            [
                {"check": one.check, "health": one.health, "evidence": one.evidence, "remedy": one.remedy}
                for one in found
            ]
        )
    if any(finding.health is Health.PROBLEM for finding in found):
        raise typer.Exit(1)


def _show(finding: Finding) -> None:
    screen = console()
    screen.print(f"{finding.health:<8}", style=STYLES[finding.health], end="")
    screen.print(f"{finding.check:<24}{finding.evidence}", markup=False)
    if finding.remedy is not None:
        screen.print(f"{'':<32}-> {finding.remedy}", markup=False)
