"""`outbox migrate` and `outbox check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from outbox.cli.options import Dsn, Json, connected
from outbox.cli.output import print_json
from outbox.durations import format_duration
from outbox.migrate import applied_version, check_schema, required_version
from outbox.migrate import migrate as run_migrations
from outbox.status import overview

if TYPE_CHECKING:
    import psycopg

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(migrate)
    app.command()(check)


def migrate(
    dsn: Dsn = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be applied.")] = False,
    as_json: Json = False,
) -> None:
    """Bring the schema up to date. Safe to run twice, and ten times at once."""
    with connected(dsn, with_schema=False) as connection:
        applied = run_migrations(connection, dry_run=dry_run)
        version = applied_version(connection)
    if as_json:
        steps = [{"version": step.version, "name": step.name, "seconds": step.seconds} for step in applied]
        print_json({"applied": [] if dry_run else steps, "pending": steps if dry_run else [], "version": version})
        return
    for step in applied:
        took = "would be applied" if step.seconds is None else f"applied in {format_duration(step.seconds)}"
        typer.echo(f"{step.version:04} {step.name} {took}")
    if not applied:
        typer.echo(f"the schema is up to date at version {version}")


def check(dsn: Dsn = None, *, as_json: Json = False) -> None:
    """Check that the database answers, the schema fits and relays are there; exit code 1 if something is wrong."""
    with connected(dsn, with_schema=False) as connection:
        version = check_schema(connection)
        found = overview(connection)
        findings = _findings(connection, found, version)
    if as_json:
        print_json({"findings": findings, "problems": found["problems"]})
    else:
        for finding in findings:
            typer.echo(f"{finding['check']:<10} {finding['result']}")
        for problem in found["problems"]:
            typer.echo(f"problem {problem['code']}: {problem['message']}\n  -> {problem['remedy']}")
    if found["problems"]:
        raise typer.Exit(1)


def _findings(connection: psycopg.Connection[Any], found: dict[str, Any], version: int) -> list[dict[str, str]]:
    running = [relay for relay in found["relays"] if relay["state"] == "running"]
    listening = sum(relay["doorbell"] == "listening" for relay in running)
    row = connection.execute("select current_user, pg_has_role(current_user, 'pg_monitor', 'member')").fetchone()
    role = f"{row[0]}{' (may see all sessions)' if row[1] else ''}" if row is not None else "?"
    return [
        {"check": "server", "result": f"PostgreSQL {found['database']['server_version']}"},
        {"check": "schema", "result": f"version {version}, this command needs {required_version()}"},
        {"check": "role", "result": role},
        {"check": "relays", "result": f"{len(running)} running"},
        {
            "check": "doorbell",
            "result": f"{listening} of {len(running)} relays listen" if running else "no relay to ring for",
        },
    ]
