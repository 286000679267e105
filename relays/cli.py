"""The command `outbox-relay`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from outbox.durations import parse_duration
from outbox.exits import run_command
from outbox.settings import dsn_setting
from relays import __version__
from relays.settings import RelaySettings

__all__ = ["main"]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"outbox-relay {__version__}")
        raise typer.Exit


@app.command()
def relay(  # noqa: PLR0917 - typer builds the options from the signature
    dsn: Annotated[str | None, typer.Option(help="PostgreSQL to serve; else OUTBOX_DSN.", show_default=False)] = None,
    concurrency: Annotated[int, typer.Option(help="Attempts under way at once, over all destinations.")] = 100,
    processes: Annotated[int, typer.Option(help="Relay processes to run under a supervisor.")] = 1,
    drain: Annotated[bool, typer.Option("--drain", help="Stop with exit code 0 when nothing is due.")] = False,
    only: Annotated[str | None, typer.Option(help="Serve these destinations alone: NAME,NAME.")] = None,
    app_module: Annotated[
        list[str] | None, typer.Option("--app", help="Module that registers handlers; may be repeated.")
    ] = None,
    poll: Annotated[str, typer.Option(help="Longest pause between looks when nobody rings.")] = "1s",
    grace: Annotated[str, typer.Option(help="How long attempts may go on after SIGTERM.")] = "20s",
    lease: Annotated[
        str | None, typer.Option(help="How long a claim lasts; default: each destination's timeout and some.")
    ] = None,
    listen_dsn: Annotated[
        str | None,
        typer.Option(help="Direct DSN for the doorbell, when --dsn goes through a transaction pooler."),
    ] = None,
    metrics: Annotated[str | None, typer.Option(help="HOST:PORT for /metrics, /livez and /readyz.")] = None,
    traces: Annotated[
        bool, typer.Option("--traces", help="Trace attempts with OpenTelemetry, as the OTEL_* variables say.")
    ] = False,
    log_format: Annotated[str, typer.Option(help="console or json.")] = "console",
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Claim due deliveries, send them through their sinks, and settle what became of them.

    SIGTERM and SIGINT claim nothing more and let attempts finish within --grace; a second signal gives them back
    at once. Exit codes: 0 done, 1 stopped in a hurry, 2 usage, 3 database unreachable, 4 schema missing or newer.
    """
    from relays import bootstrap, logs

    logs.configure(log_format, log_level, show_tracebacks=debug)
    settings = RelaySettings(
        dsn=dsn_setting(dsn),
        listen_dsn=listen_dsn,
        concurrency=concurrency,
        poll=parse_duration(poll, "--poll"),
        grace=parse_duration(grace, "--grace"),
        lease=None if lease is None else parse_duration(lease, "--lease"),
        drain=drain,
        only=None if only is None else frozenset(only.split(",")),
        app=tuple(app_module or ()),
        metrics=metrics,
        traces=traces,
    )
    if processes > 1:
        from relays.supervisor import supervise

        raise typer.Exit(supervise(processes, sys.argv[1:]))
    raise typer.Exit(bootstrap.serve(settings))


def main() -> None:
    """Run the command; errors are one line with cause and remedy, and have their own exit codes."""
    run_command("outbox-relay", app)
