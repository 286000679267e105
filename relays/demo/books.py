"""What the database says at the end of the demo, read in one go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from psycopg.rows import class_row

from relays.demo.queries import query

if TYPE_CHECKING:
    import psycopg

__all__ = ["Attempt", "Books", "DeadLetter", "OpenDelivery", "open_deliveries"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One row of history."""

    destination: str
    sink: str
    event_id: str
    outcome: str
    status: int | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A delivery that was given up on."""

    destination: str
    event_id: str
    type: str
    tries: int
    reason: str
    detail: str | None


@dataclass(frozen=True, slots=True)
class OpenDelivery:
    """A delivery that is not finished."""

    destination: str
    event_id: str


@dataclass(frozen=True, slots=True)
class Books:
    """The database's side of the comparison."""

    stored: list[str]
    attempts: list[Attempt]
    dead: list[DeadLetter]
    open: list[OpenDelivery]
    reservations: list[str]

    @classmethod
    def read(cls, connection: psycopg.Connection[Any]) -> Self:
        """Read the books."""
        with connection.cursor(row_factory=class_row(Attempt)) as cursor:
            attempts = cursor.execute(query("attempts")).fetchall()
        with connection.cursor(row_factory=class_row(DeadLetter)) as cursor:
            dead = cursor.execute(query("dead_letters")).fetchall()
        return cls(
            stored=_ids(connection, "stored_events"),
            attempts=attempts,
            dead=dead,
            open=open_deliveries(connection),
            reservations=_ids(connection, "reservations"),
        )


def open_deliveries(connection: psycopg.Connection[Any]) -> list[OpenDelivery]:
    """Return what is not finished."""
    with connection.cursor(row_factory=class_row(OpenDelivery)) as cursor:
        return cursor.execute(query("open_deliveries")).fetchall()


def _ids(connection: psycopg.Connection[Any], name: str) -> list[str]:
    return [event_id for (event_id,) in connection.execute(query(name)).fetchall()]
