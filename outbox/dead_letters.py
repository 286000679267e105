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
    chosen = {**selection.parameters(), "is_removed": False, "died_before": now}
    return partial(_chosen_step, connection, chosen, "redrive_dead", f"by {actor}")


def discarding(connection: psycopg.Connection[Any], selection: Selection, actor: str) -> Callable[[int], list[Taken]]:
    """Return the step that drops a batch: dead letters, then what a removed destination of that name left open."""
    chosen = {**selection.parameters(), "died_before": None}
    held = {"destination": selection.destination, "actor": f"by {actor}"}

    def step(batch: int) -> list[Taken]:
        taken = _chosen_step(connection, chosen, "discard_dead", f"by {actor}", batch)
        if taken or not selection.is_of_destination_alone:
            return taken
        return _taken(named_rows(connection, "discard_held", {**held, "batch": batch}))

    return step


def _chosen_step(
    connection: psycopg.Connection[Any], selection: dict[str, Any], name: str, actor: str, batch: int
) -> list[Taken]:
    """Choose and lock a batch, and carry out the statement `name` on it."""
    with connection.transaction():
        chosen = named_rows(connection, "choose_dead", {**selection, "batch": batch})
        ids = [row.delivery_id for row in chosen]
        return _taken(named_rows(connection, name, {"ids": ids, "actor": actor})) if ids else []


def _taken(rows: list[Any]) -> list[Taken]:
    return [Taken(row.delivery_id, row.event_id) for row in rows]
