"""`outbox doctor`: looks at everything an outbox depends on; each finding has its evidence and its remedy."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg

from outbox.doctor.findings import Finding, Health, warning
from outbox.doctor.sessions import check_clock, check_doorbell, check_horizon
from outbox.doctor.tables import check_bloat, check_indexes, check_sequences, check_storage, check_tuples
from outbox.doctor.upkeep import check_identity, check_leases, check_partitions, check_roles, check_versions
from outbox.errors import OutboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["Finding", "Health", "examine"]

CHECKS = (
    check_identity,
    check_versions,
    check_roles,
    check_clock,
    check_horizon,
    check_leases,
    check_tuples,
    check_storage,
    check_indexes,
    check_bloat,
    check_sequences,
    check_partitions,
)


def examine(connection: psycopg.Connection[Any], dsn: str) -> Iterator[Finding]:
    """Run all checks; one that may not look, or cannot, is a finding, too."""
    yield from _guarded("doorbell", partial(check_doorbell, dsn))
    for check in CHECKS:
        yield from _guarded(check.__name__.removeprefix("check_"), partial(check, connection))


def _guarded(name: str, check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    try:
        yield from check()
    except psycopg.errors.InsufficientPrivilege as error:
        yield warning(name, f"not allowed to look: {error.diag.message_primary}", "run it as the owner of the schema")
    except (psycopg.Error, OutboxError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        yield warning(name, f"could not look: {lines[0]}", "run it again; if it stays, look at the server's log")
