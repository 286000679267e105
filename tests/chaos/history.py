"""What the outbox says happened, read from its tables and its commands after a run."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from psycopg.rows import namedtuple_row

from tests.commands import outbox

__all__ = ["Attempt", "History", "read_history"]


@dataclass(frozen=True)
class Attempt:
    """One row of the history."""

    destination: str
    event_id: str
    attempt: int
    outcome: str
    reason: str | None
    certainty: str | None
    detail: str | None

    @property
    def is_interrupted(self) -> bool:
        """Whether the relay died or stalled in it, so that nobody knows what it sent."""
        return self.outcome == "interrupted" or self.reason == "relay_died"

    @property
    def may_have_been_seen(self) -> bool:
        """Whether a receiver may have seen a request of it."""
        return (
            self.outcome in {"delivered", "retry", "dead", "interrupted", "released"} and self.certainty != "not_sent"
        )

    @property
    def is_ambiguous(self) -> bool:
        """Whether it says that the receiver may have what was sent, without saying that it has."""
        return self.is_interrupted or self.outcome == "released" or self.certainty == "ambiguous"


@dataclass
class History:
    """Events, attempts, dead letters and open deliveries; (destination, event id) name a delivery.

    `overview` is `outbox status --json`, `timelines` are `outbox status EVENT_ID --json` of some events.
    """

    events: set[str] = field(default_factory=set)
    attempts: list[Attempt] = field(default_factory=list)
    dead: dict[tuple[str, str], str] = field(default_factory=dict)
    open: set[tuple[str, str]] = field(default_factory=set)
    overview: dict[str, Any] = field(default_factory=dict)
    timelines: dict[str, dict[str, Any]] = field(default_factory=dict)

    @cached_property
    def delivered(self) -> set[tuple[str, str]]:
        """The deliveries the history calls delivered."""
        return {(row.destination, row.event_id) for row in self.attempts if row.outcome == "delivered"}

    @cached_property
    def by_attempt(self) -> dict[tuple[str, str, int], list[Attempt]]:
        """Return the rows of each attempt; a released number is used again, so there may be several."""
        found: dict[tuple[str, str, int], list[Attempt]] = defaultdict(list)
        for row in self.attempts:
            found[row.destination, row.event_id, row.attempt].append(row)
        return found


def read_history(dsn: str, connection, sample: list[str]) -> History:
    """Read it all; of the events in `sample` also what `outbox status` says."""
    rows = connection.cursor(row_factory=namedtuple_row).execute
    attempts = rows(
        "select n.name, a.event_id::text, a.attempt, a.outcome::text, a.reason, a.certainty::text, a.detail"
        " from outbox.attempts a join outbox.destinations n on n.id = a.destination_id"
    )
    return History(
        attempts=[Attempt(*row) for row in attempts],
        events={row.id for row in rows("select id::text from outbox.events")},
        dead={(row.name, row.event_id): row.reason for row in rows(_DELIVERIES.format("dead_letters", "d.reason"))},
        open={(row.name, row.event_id) for row in rows(_DELIVERIES.format("deliveries", "null"))},
        overview=_status(dsn),
        timelines={event_id: _status(dsn, event_id) for event_id in sample},
    )


def _status(dsn: str, *arguments: str) -> dict[str, Any]:
    done = outbox("status", *arguments, "--json", dsn=dsn)
    assert done.code == 0, done.output
    return done.json


_DELIVERIES = (
    "select n.name, d.event_id::text, {1} as reason from outbox.{0} d"
    " join outbox.destinations n on n.id = d.destination_id"
)
