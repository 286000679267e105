"""Starts one relay: checks the database, installs the signals, runs until stopped."""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

from outbox.database import aconnect, connect
from outbox.errors import DatabaseUnreachable, InvalidSettings
from outbox.identity import check_identity
from outbox.migrate import check_schema
from relays.attempt_log import AttemptLog
from relays.backlog import Backlog
from relays.doorbell import CHANNEL, hears
from relays.metrics import Metrics
from relays.observer import Observers
from relays.patience import ANSWER_SECONDS, answering_within
from relays.queries import query
from relays.relay import Relay
from relays.sessions import Session
from relays.sinks.handler import load_app

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from relays.settings import RelaySettings
    from relays.telemetry import Tracing

__all__ = ["serve"]

log = logging.getLogger("relays.bootstrap")

CONNECTIONS = 7
"""Of one relay: claims, settlements, sweeps, doorbell, leases, and for moments a ring and the upkeep."""

LOOK_SECONDS = 3 * ANSWER_SECONDS
"""For two connections and a ring from one to the other."""


def serve(settings: RelaySettings) -> int:
    """Run a relay in this process and return its exit code.

    Raises:
        InvalidSettings: an `--app` module cannot be imported; a relay without its handlers would claim nothing.
            Or `--traces` needs what is not installed.
    """
    for name in settings.app:
        load_app(name)
    with (
        connect(settings.dsn, application_name="outbox-relay start") as connection,
        answering_within(ANSWER_SECONDS, connection),
    ):
        check_schema(connection)
        check_identity(connection)
        _check_connections(connection)
    tracing = _tracing() if settings.traces else None
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        try:
            return runner.run(_serve(settings, tracing))
        finally:
            if tracing is not None:
                tracing.close()


def _tracing() -> Tracing:
    try:
        from relays.telemetry import start_tracing

        return start_tracing()
    except ImportError as error:
        raise InvalidSettings(f"--traces needs {error.name}: pip install 'outbox-relay[otel]'") from None


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's loop where it is installed: fewer microseconds per wake-up."""
    with suppress(ImportError):
        import uvloop

        return uvloop.new_event_loop
    return None


async def _serve(settings: RelaySettings, tracing: Tracing | None) -> int:
    metrics = Metrics() if settings.metrics is not None else None
    pooled = await is_pooled(settings.dsn)
    observers = (AttemptLog(),) if metrics is None else (AttemptLog(), metrics)
    around = None if tracing is None else tracing.around
    relay = Relay(settings, is_pooled=pooled, observer=Observers(*observers), around=around)
    loop = asyncio.get_running_loop()
    signals = 0

    def stop() -> None:
        nonlocal signals
        signals += 1
        relay.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    async with AsyncExitStack() as stack:
        if settings.metrics is not None and metrics is not None:
            from relays.endpoint import endpoint

            session = await stack.enter_async_context(Session(settings.dsn, "metrics", is_pooled=pooled))
            address = await stack.enter_async_context(endpoint(settings.metrics, relay, metrics, Backlog(session)))
            log.info("metrics at http://%s/metrics", address)
        await relay.run()
    return 1 if signals > 1 else 0


def _check_connections(connection: psycopg.Connection[Any]) -> None:
    """Refuse to start where the server has too few connections left for a relay.

    Raises:
        InvalidSettings: names the numbers and the remedy.
    """
    row = connection.execute(query("count_connections")).fetchone()
    most, free = row if row is not None else (0, 0)
    if free < CONNECTIONS:
        raise InvalidSettings(
            f"a relay needs {CONNECTIONS} connections, the server has {free} free of {most};"
            " raise max_connections, run fewer processes, or go through a pooler with a direct --listen-dsn"
        )


async def is_pooled(dsn: str) -> bool:
    """Tell whether `dsn` goes through a transaction pooler, where nothing may outlive a transaction.

    Raises:
        DatabaseUnreachable: connections are made and then not answered.
    """
    try:
        async with (
            asyncio.timeout(LOOK_SECONDS),
            await aconnect(dsn, application_name="outbox-relay start", prepare_threshold=None) as connection,
        ):
            await connection.execute(f"listen {CHANNEL}")
            is_heard = await hears(connection, dsn)
            await connection.execute("unlisten *")
    except TimeoutError:
        raise DatabaseUnreachable(
            f"no answer from the database within {LOOK_SECONDS:g} s; check the network between, and start again"
        ) from None
    return not is_heard
