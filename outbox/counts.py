"""Counts the open deliveries of each destination by state; beyond what can be counted in time, estimates them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg import errors

from outbox.rows import named_row, named_rows

if TYPE_CHECKING:
    import psycopg

__all__ = ["COUNT_SECONDS", "Counts", "count_open"]

COUNT_SECONDS = 1.0
"""Counting a million deliveries takes about half of that; `status` answers within two seconds."""

COUNT_MEMORY = "64MB"
"""What groups a million keyed deliveries without files on disk."""

SAMPLED_PAGES = 2000
"""Of 8 KiB, tens of rows each: estimates to a percent, in a tenth of a second."""


class Counts(NamedTuple):
    """Rows of count_open by destination id; `is_estimate` says that they come from a sample."""

    by_destination: dict[int, Any]
    is_estimate: bool


def count_open(connection: psycopg.Connection[Any], *, seconds: float = COUNT_SECONDS) -> Counts:
    """Return what is open, counted if that takes no longer than `seconds`, else estimated."""
    try:
        with connection.transaction():
            connection.execute(
                "select set_config('statement_timeout', %s, true), set_config('work_mem', %s, true)",
                [f"{seconds * 1000:.0f}ms", COUNT_MEMORY],
            )
            rows = named_rows(connection, "count_open")
    except errors.QueryCanceled:
        try:
            return Counts(_by_destination(_sample(connection)), is_estimate=True)
        except errors.InsufficientPrivilege:  # views cannot be sampled, and a reader has nothing else
            rows = named_rows(connection, "count_open")
    return Counts(_by_destination(rows), is_estimate=False)


def _sample(connection: psycopg.Connection[Any]) -> list[Any]:
    pages = named_row(connection, "measure_deliveries").pages
    return named_rows(connection, "sample_open", {"percent": min(100.0, 100 * SAMPLED_PAGES / max(pages, 1))})


def _by_destination(rows: list[Any]) -> dict[int, Any]:
    return {row.destination_id: row for row in rows}
