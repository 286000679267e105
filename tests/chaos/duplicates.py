"""What receivers took more than once, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.chaos.evidence import Evidence, name_of, said_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.chaos.history import Attempt
    from tests.chaos.ledger import Sighting

__all__ = ["duplicates", "duplicates_explained"]


def duplicates_explained(evidence: Evidence) -> Iterator[str]:
    """Where a receiver took an event twice, an attempt says that this may be so, or the receiver denied it."""
    for sighting, explanation in duplicates(evidence):
        if explanation is None:
            yield f"{said_of(name_of(sighting))} was taken ({sighting.did}) beside another, and its row does not say so"


def duplicates(evidence: Evidence) -> Iterator[tuple[Sighting, str | None]]:
    """Yield what was taken beside the taking that counts, with what explains it (None: nothing).

    The one that counts is that of the delivered attempt, else the last.
    """
    rows = evidence.history.by_attempt
    for requests in evidence.ledger.seen().values():
        takings = [request for request in requests if request.took]
        counting = [
            s for s in takings if any(row.outcome == "delivered" for row in rows.get(name_of(s), []))
        ] or takings
        for sighting in takings:
            if sighting is not counting[-1]:
                yield sighting, _explanation(sighting, rows.get(name_of(sighting), []))


def _explanation(sighting: Sighting, rows: list[Attempt]) -> str | None:
    """Return why a receiver may have taken an event in an attempt that does not count."""
    for row in rows:
        if row.is_ambiguous:
            return row.outcome if row.reason is None else f"{row.outcome}: {row.reason}"
    return f"the receiver denied it ({sighting.did})" if sighting.accepted_at is None else None
