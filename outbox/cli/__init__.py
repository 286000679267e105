"""The command `outbox`: for whoever sets the outbox up, and whoever is called at night."""

from __future__ import annotations

import typer

from outbox.cli import applying, database, dead, demo, destinations, doctor, recording, replaying, status, upkeep
from outbox.exits import run_command

__all__ = ["app", "main"]

app = typer.Typer(
    name="outbox",
    help="Transactional outbox for PostgreSQL: set up, look, repair. Exit codes: 0 done, 1 failed, 2 usage,"
    " 3 database unreachable, 4 schema missing or mismatched.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
database.register(app)
recording.register(app)
status.register(app)
app.add_typer(destinations.app, name="destinations")
applying.register(app)
dead.register(app)
replaying.register(app)
upkeep.register(app)
doctor.register(app)
demo.register(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"outbox-relay {version('outbox-relay')}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    debug: bool = typer.Option(False, "--debug", help="Show tracebacks of errors."),
    version: bool = typer.Option(False, "--version", help="Show the version.", is_eager=True, callback=_show_version),
) -> None:
    """Options of every command; `--debug` is read in `main`."""
    del debug, version


def main() -> None:
    """Run the command; errors are one line with cause and remedy, and have their own exit codes."""
    run_command("outbox", app)
