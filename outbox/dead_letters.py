"""Dead letters: list, count, redrive, discard; and delivered ones again."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from psycopg.rows import namedtuple_row

from outbox.queries import query

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    import psycopg

    from outbox.selection import Selection

__all__ = ["count_dead", "count_delivered", "discarding", "list_dead", "list_delivered", "redriving", "replaying"]


def list_dead(connection: psycopg.Connection[Any], selection: Selection, limit: int) -> list[dict[str, Any]]:
    """Return dead letters of a selection, oldest first."""
    return _listed(connection, "list_dead", {**selection.parameters(), "limit": limit})


def count_dead(connection: psycopg.Connection[Any], selection: Selection) -> int:
    """Return how many dead letters a selection has."""
    return _number(connection, "count_dead", selection.parameters())


def redriving(connection: psycopg.Connection[Any], selection: Selection, actor: str) -> Callable[[int], list[int]]:
    """Return the step that revives a batch of dead letters: due now, with a new budget, under the same identity."""
    return partial(_step, connection, "redrive_dead", {**selection.parameters(), "actor": f"by {actor}"})


def discarding(connection: psycopg.Connection[Any], selection: Selection, actor: str) -> Callable[[int], list[int]]:
    """Return the step that drops a batch: dead letters, then what a removed destination of that name left open."""

    def step(batch: int) -> list[int]:
        parameters = {**selection.parameters(), "actor": f"by {actor}"}
        return _step(connection, "discard_dead", parameters, batch) or (
            _step(connection, "discard_held", parameters, batch) if selection.destination else []
        )

    return step


def list_delivered(
    connection: psycopg.Connection[Any], selection: Selection, until: datetime, limit: int
) -> list[dict[str, Any]]:
    """Return delivered deliveries of a selection."""
    return _listed(connection, "list_delivered", {**_replayed(selection, until), "limit": limit})


def count_delivered(connection: psycopg.Connection[Any], selection: Selection, until: datetime) -> int:
    """Return how many deliveries a replay would send again."""
    return _number(connection, "count_delivered", _replayed(selection, until))


def replaying(
    connection: psycopg.Connection[Any], selection: Selection, until: datetime, actor: str
) -> Callable[[int], list[int]]:
    """Return the step that delivers a batch again; it walks on by delivery id, so no delivery is taken twice."""
    parameters = {**_replayed(selection, until), "actor": f"by {actor}"}

    def step(batch: int) -> list[int]:
        ids = _step(connection, "replay_delivered", parameters, batch)
        parameters["after_id"] = max(ids, default=parameters["after_id"])
        return ids

    return step


def _replayed(selection: Selection, until: datetime) -> dict[str, Any]:
    return {**selection.parameters(), "until": selection.until or until, "after_id": 0}


def _listed(connection: psycopg.Connection[Any], name: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=namedtuple_row) as cursor:
        return [row._asdict() for row in cursor.execute(query(name), parameters).fetchall()]


def _number(connection: psycopg.Connection[Any], name: str, parameters: dict[str, Any]) -> int:
    row = connection.execute(query(name), parameters).fetchone()
    return int(row[0]) if row is not None else 0


def _step(connection: psycopg.Connection[Any], name: str, parameters: dict[str, Any], batch: int) -> list[int]:
    return [row[0] for row in connection.execute(query(name), {**parameters, "batch": batch}).fetchall()]
