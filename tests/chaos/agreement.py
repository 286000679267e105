"""Whether what the outbox says agrees with what receivers did, and its commands with its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.chaos.evidence import Evidence, name_of, said_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.chaos.history import History

__all__ = ["honesty"]


def honesty(evidence: Evidence) -> Iterator[str]:
    """What the history calls delivered was accepted in that attempt, and the status agrees with the tables."""
    accepted = {name_of(sighting) for sighting in evidence.ledger.sightings if sighting.accepted_at is not None}
    for row in evidence.history.attempts:
        name = (row.destination, row.event_id, row.attempt)
        if row.outcome == "delivered" and name not in accepted:
            yield f"{said_of(name)} is called delivered and was never accepted"
    yield from _overview_errors(evidence.history)
    yield from _timeline_errors(evidence.history)


def _overview_errors(history: History) -> Iterator[str]:
    totals = history.overview["totals"]
    unfinished = sum(totals[state] for state in ("waiting", "scheduled", "leased", "held", "blocked"))
    if unfinished != len(history.open):
        yield f"status counts {unfinished} open deliveries, there are {len(history.open)}"
    if totals["dead"] != len(history.dead):
        yield f"status counts {totals['dead']} dead letters, there are {len(history.dead)}"


def _timeline_errors(history: History) -> Iterator[str]:
    for event_id, timeline in history.timelines.items():
        for delivery in timeline["deliveries"]:
            name = (delivery["destination"], event_id)
            state = "dead" if name in history.dead else "delivered" if name in history.delivered else "open"
            said = delivery["state"] if delivery["state"] in {"dead", "delivered"} else "open"
            if said != state:
                yield f"status calls event {event_id} for {name[0]} {delivery['state']}, it is {state}"
            kept = sum((row.destination, row.event_id) == name for row in history.attempts)
            if len(delivery["attempts"]) != kept:
                shown = len(delivery["attempts"])
                yield f"status shows {shown} attempts of event {event_id} for {name[0]}, {kept} are kept"
