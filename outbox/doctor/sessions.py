"""Checks of sessions: the doorbell's round trip, clocks, and who pins the xmin horizon."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from outbox.database import connect
from outbox.doctor.findings import Finding, problem, sound, warning
from outbox.durations import format_duration
from outbox.pins import pinned, unpinning
from outbox.problems import PIN_SECONDS, PIN_XIDS
from outbox.rows import named_row, named_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

__all__ = ["check_clock", "check_doorbell", "check_horizon"]

CHANNEL = "outbox"
RING_SECONDS = 2.0
SKEW_WARNING_SECONDS, SKEW_PROBLEM_SECONDS = 5.0, 60.0
HOUR_SECONDS = 3600.0


def check_doorbell(dsn: str) -> Iterator[Finding]:
    """Ring from one session and listen in another: through a transaction pooler that is not heard."""
    with connect(dsn, prepare_threshold=None) as listener, connect(dsn, prepare_threshold=None) as ringer:
        listener.execute(f"listen {CHANNEL}")
        begun = time.monotonic()
        ringer.execute(f"select pg_notify('{CHANNEL}', '')")
        for _ in listener.notifies(timeout=RING_SECONDS, stop_after=1):
            yield sound("doorbell", f"a ring came back after {format_duration(time.monotonic() - begun)}")
            return
    yield problem(
        "doorbell",
        f"no ring came back within {format_duration(RING_SECONDS)}: a transaction pooler (PgBouncer) is in between",
        "give relays a direct DSN with --listen-dsn; until then they poll, and deliver up to --poll later",
    )


def check_clock(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    """Compare this machine's clock and the relays' with the server's: receivers refuse webhooks minutes off."""
    before = datetime.now(UTC)
    server = named_row(connection, "inspect_session").now
    after = datetime.now(UTC)
    yield _compared("this machine", (before + (after - before) / 2 - server).total_seconds())
    for relay in named_rows(connection, "list_relays"):
        if relay.state == "running" and relay.clock_ahead_seconds is not None:
            yield _compared(f"relay {relay.id} ({relay.name})", relay.clock_ahead_seconds)


def _compared(who: str, skew: float) -> Finding:
    seen = f"{who} is {format_duration(abs(skew))} {'ahead of' if skew > 0 else 'behind'} the database"
    remedy = "synchronise both clocks (NTP): receivers refuse signatures that are minutes off"
    if abs(skew) >= SKEW_PROBLEM_SECONDS:
        return problem("clock", seen, remedy)
    if abs(skew) >= SKEW_WARNING_SECONDS:
        return warning("clock", seen, remedy)
    return sound("clock", seen)


def check_horizon(
    connection: psycopg.Connection[Any], *, min_seconds: float = PIN_SECONDS, min_xids: int = PIN_XIDS
) -> Iterator[Finding]:
    """Look for what keeps dead rows from being removed: old snapshots, prepared transactions, slots, standbys."""
    pins = named_rows(connection, "list_horizon_pins", {"min_seconds": min_seconds, "min_xids": min_xids})
    for pin in pins:
        yield (problem if (pin.age_seconds or 0.0) > HOUR_SECONDS else warning)("horizon", pinned(pin), unpinning(pin))
    if not pins:
        yield sound("horizon", f"nothing has pinned it for {format_duration(min_seconds)}")
