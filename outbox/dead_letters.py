"""Dead letters: list, count, redrive, discard."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from outbox.bulk import Taken
from outbox.rows import named_row, named_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from outbox.selection import Selection

__all__ = [
    "Tally",
    "count_dead",
    "count_held",
    "discarding",
    "list_dead",
    "missing_events",
    "redriving",
    "tally_dead",
]


class Tally(NamedTuple):
    """How many dead letters there are, how many of them of removed destinations, and of which others."""

    dead: int
    of_removed: int
    destination_ids: list[int]


def list_dead(connection: psycopg.Connection[Any], selection: Selection, limit: int) -> list[dict[str, Any]]:
    """Return dead letters of a selection, oldest first."""
    return [row._asdict() for row in named_rows(connection, "list_dead", {**selection.parameters(), "limit": limit})]


def count_dead(connection: psycopg.Connection[Any], selection: Selection) -> int:
    """Return how many dead letters a selection has."""
    return tally_dead(connection, selection).dead


def tally_dead(connection: psycopg.Connection[Any], selection: Selection) -> Tally:
    """Return how many dead letters a selection has, and of which destinations."""
    rows = named_rows(connection, "count_dead", selection.parameters())
    return Tally(
        sum(row.dead for row in rows),
        sum(row.dead for row in rows if row.is_removed),
        [row.destination_id for row in rows if not row.is_removed],
    )


def count_held(connection: psycopg.Connection[Any], selection: Selection) -> int:
    """Return how many open deliveries removed destinations left behind; 0 unless the selection names a destination."""
    return int(named_row(connection, "count_held", selection.parameters()).held)


def missing_events(connection: psycopg.Connection[Any], selection: Selection) -> list[UUID]:
    """Return the events that a selection names and that have no dead letter in it."""
    if selection.event_ids is None:
        return []
    found = {UUID(row["event_id"]) for row in list_dead(connection, selection, 1_000_000)}
    return [event_id for event_id in selection.event_ids if event_id not in found]


def redriving(connection: psycopg.Connection[Any], selection: Selection, actor: str) -> Callable[[int], list[Taken]]:
    """Return the step that revives a batch of dead letters: due now, with a new budget, under the same identity.

    What dies again meanwhile is not taken again: the run would not end.
    """
    now = named_row(connection, "read_clock").now
    parameters = {**selection.parameters(), "died_before": now, "actor": f"by {actor}"}
    return partial(_step, connection, "redrive_dead", parameters)


def discarding(connection: psycopg.Connection[Any], selection: Selection, actor: str) -> Callable[[int], list[Taken]]:
    """Return the step that drops a batch: dead letters, then what a removed destination of that name left open."""

    def step(batch: int) -> list[Taken]:
        parameters = {**selection.parameters(), "actor": f"by {actor}"}
        return _step(connection, "discard_dead", parameters, batch) or (
            _step(connection, "discard_held", parameters, batch) if selection.is_of_destination_alone else []
        )

    return step


def _step(connection: psycopg.Connection[Any], name: str, parameters: dict[str, Any], batch: int) -> list[Taken]:
    rows = named_rows(connection, name, {**parameters, "batch": batch})
    return [Taken(row.delivery_id, row.event_id) for row in rows]
