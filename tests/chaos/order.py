"""Whether the order within a key was kept."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from tests.chaos.evidence import Evidence, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.chaos.ledger import Recorded, Sighting

__all__ = ["key_order"]


def key_order(evidence: Evidence) -> Iterator[str]:
    """A later event of a key is not sent before the earlier one is finished there (key-order).

    Events of transactions that overlapped have no order to keep.
    """
    seen = evidence.ledger.seen()
    finished = {
        (destination, row.event_id): _finished_at(evidence, seen, destination, row)
        for destination, row in evidence.owed()
    }
    for (destination, key), chain in _chains(evidence).items():
        for earlier, later in _ordered_pairs(chain, lambda row, to=destination: finished[to, row.event_id]):
            requests = seen.get((destination, later.event_id))
            if requests and requests[0].at < finished[destination, earlier.event_id]:
                yield f"key {key} at {destination}: {later.event_id} came before {earlier.event_id} was done"


def _chains(evidence: Evidence) -> dict[tuple[str, str], list[Recorded]]:
    """Return by (destination, key) the events it is to get."""
    by_key: dict[tuple[str, str], list[Recorded]] = defaultdict(list)
    for destination, row in evidence.owed():
        if row.key is not None:
            by_key[destination, row.key].append(row)
    return by_key


def _ordered_pairs(
    chain: list[Recorded], finished_at: Callable[[Recorded], float]
) -> Iterator[tuple[Recorded, Recorded]]:
    """Yield each event with the one before it, of all that were certainly before it, that was finished last."""
    ended = sorted(chain, key=lambda row: row.ended)
    known = 0
    last: Recorded | None = None
    previous: Recorded | None = None
    for row in sorted(chain, key=lambda row: (row.began, row.position)):
        while ended[known].ended <= row.began:
            if last is None or finished_at(last) < finished_at(ended[known]):
                last = ended[known]
            known += 1
        if last is not None:
            yield last, row
        if previous is not None and previous.began == row.began:
            yield previous, row
        previous = row


def _finished_at(
    evidence: Evidence, seen: dict[tuple[str, str], list[Sighting]], destination: str, row: Recorded
) -> float:
    """Return when the receiver accepted an event; of a dead one also when it last answered; else never.

    A request may arrive after the relay gave up waiting, so that only tries that were answered say when.
    """
    requests = seen.get((destination, row.event_id), [])
    accepted = [request.accepted_at for request in requests if request.accepted_at is not None]
    if (destination, row.event_id) not in evidence.history.dead:
        return min(accepted, default=math.inf)
    rows = evidence.history.by_attempt
    answered = [s.at for s in requests if any(row.certainty == "answered" for row in rows.get(name_of(s), []))]
    return min(*accepted, max(answered, default=-math.inf), math.inf)
