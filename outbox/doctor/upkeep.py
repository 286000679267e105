"""Checks of what upkeep and relays should have done: partitions ahead, leases recovered, versions, roles."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from outbox.doctor.findings import Finding, problem, sound, warning
from outbox.durations import format_duration
from outbox.identity import describe_copy
from outbox.migrate import applied_version, required_version
from outbox.rows import named_row, named_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

__all__ = ["check_identity", "check_leases", "check_partitions", "check_roles", "check_versions"]

FEWEST_DAYS_AHEAD = 2
DAY_SECONDS = 86400.0
UPKEEP = "outbox prune; relays do it every ten minutes: see their logs"


def check_partitions(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    """Look how far ahead partitions exist, and whether the default ones had to step in."""
    now = named_row(connection, "inspect_session").now
    for row in named_rows(connection, "inspect_partitions"):
        name = f"partitions of {row.parent}"
        days = 0.0 if row.covered_until is None else (row.covered_until - now).total_seconds() / DAY_SECONDS
        if row.has_default_rows:
            yield warning(name, "rows had to go into the default partition", UPKEEP)
        if not row.is_today_covered:
            yield warning(name, "there is none for today, so rows go into the default partition", UPKEEP)
        elif days < FEWEST_DAYS_AHEAD:
            yield warning(name, f"they reach {max(days, 0.0):.1f} days ahead", UPKEEP)
        elif not row.has_default_rows:
            yield sound(name, f"they reach {days:.1f} days ahead")


def check_leases(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    """Look for leases of relays that are gone: a running relay recovers them when they lapse."""
    rows = named_rows(connection, "list_orphan_leases")
    for row in rows:
        who = f"relay {row.relay_id}" + (f" ({row.relay})" if row.relay else "")
        if row.lapsed:
            seen = f"lapsed leases of {who}: {row.lapsed}, the first since {format_duration(row.lapsed_seconds)}"
            yield problem("leases", seen, "a running relay recovers them within seconds; if none is alive, start one")
        else:
            seen = f"leases of {who}, which is not alive: {row.leases}"
            yield warning("leases", seen, "they are recovered as soon as they lapse")
    if not rows:
        yield sound("leases", "all are held by relays that are alive")


def check_versions(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    """Compare the versions of schema, relays and this command."""
    applied, required = applied_version(connection), required_version()
    if applied != required:
        remedy = "outbox migrate" if (applied or 0) < required else "upgrade outbox-relay here"
        yield problem("schema", f"version {applied}, this command needs {required}", remedy)
    else:
        yield sound("schema", f"version {applied}")
    own = version("outbox-relay")
    relays = [relay for relay in named_rows(connection, "list_relays") if relay.state == "running"]
    others = sorted({relay.version for relay in relays} - {own})
    if others:
        yield warning("versions", f"relays run {', '.join(others)}, this command is {own}", "upgrade them, one by one")
    else:
        yield sound("versions", f"relays running: {len(relays)}, all {own}" if relays else "no relay runs")


def check_identity(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    """Look whether this database is a copy of the one the outbox was installed in."""
    difference = describe_copy(connection)
    if difference is None:
        yield sound("identity", "the outbox was installed in this database")
    else:
        yield problem("identity", f"this is a copy: {difference}; relays refuse it", "outbox adopt, if it is to send")


def check_roles(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    """Compare the rights of the roles of deploy/roles.sql with what they need."""
    session = named_row(connection, "inspect_session")
    if not session.may_monitor:
        yield warning(
            "roles",
            f"{session.user_name} does not see other users' sessions, so who pins the horizon may stay hidden",
            f"grant pg_monitor to {session.user_name}",
        )
    gaps: dict[str, list[str]] = {}
    for gap in named_rows(connection, "list_role_gaps"):
        gaps.setdefault(gap.role, []).append(gap.what)
    for role, whats in gaps.items():
        more = f", and {len(whats) - 3} more" if len(whats) > 3 else ""  # noqa: PLR2004 - as many as fit a line
        yield warning("roles", f"{role} should {', '.join(whats[:3])}{more}", "run deploy/roles.sql in this database")
    if not gaps:
        yield sound("roles", f"connected as {session.user_name}; rights are as deploy/roles.sql gives them")
