"""What must hold after any run, whatever went wrong in it: each check yields what speaks against a promise."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

from relays.decisions import INTERRUPTIONS_UNTIL_DEAD
from tests.chaos.agreement import honesty
from tests.chaos.duplicates import duplicates_explained
from tests.chaos.evidence import Evidence, Name, name_of, said_of
from tests.chaos.ledger import Ending, Sighting
from tests.chaos.order import key_order

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CHECKS", "complaints"]


def conservation(evidence: Evidence) -> Iterator[str]:
    """A committed event is delivered, dead or open at each destination: exactly one of them (at-least-once)."""
    history = evidence.history
    delivered = history.delivered
    for destination, row in evidence.owed():
        name = (destination, row.event_id)
        states = [
            state
            for state, members in (("delivered", delivered), ("dead", history.dead), ("open", history.open))
            if name in members
        ]
        if row.event_id not in history.events:
            yield f"event {row.event_id} was committed and is gone"
        elif len(states) != 1:
            yield f"event {row.event_id} for {destination} is {' and '.join(states) or 'lost'}"


def deaths_explained(evidence: Evidence) -> Iterator[str]:
    """A delivery is dead for a reason: refused for good, tried as often as allowed, or relays died with it."""
    refused = {(s.receiver, s.event_id) for s in evidence.ledger.sightings if s.did == "refuses for good"}
    rows = defaultdict(list)
    for row in evidence.history.attempts:
        rows[row.destination, row.event_id].append(row)
    for name, reason in evidence.history.dead.items():
        interrupted = sum(row.is_interrupted for row in rows[name])
        failed = sum(row.outcome in {"retry", "dead"} and not row.is_interrupted for row in rows[name])
        if reason == "relay_died":
            is_explained = interrupted >= INTERRUPTIONS_UNTIL_DEAD
        else:
            is_explained = name in refused or failed >= evidence.tries[name[0]]
        if not is_explained:
            tried = f"{failed} failures, {interrupted} interruptions"
            yield f"event {name[1]} for {name[0]} is dead ({reason}) after {tried}"


def caller_commits(evidence: Evidence) -> Iterator[str]:
    """What was rolled back is never seen (caller-commits)."""
    rolled_back = evidence.ledger.ids(Ending.ROLLED_BACK) - evidence.ledger.ids(Ending.COMMITTED, Ending.UNKNOWN)
    for event_id in sorted(rolled_back & {sighting.event_id for sighting in evidence.ledger.sightings}):
        yield f"event {event_id} was rolled back and sent"
    for event_id in sorted(rolled_back & evidence.history.events):
        yield f"event {event_id} was rolled back and is in the outbox"
    known = {row.event_id for row in evidence.ledger.recorded}
    for event_id in sorted({sighting.event_id for sighting in evidence.ledger.sightings} - known):
        yield f"event {event_id} was sent and never recorded"


def every_try_recorded(evidence: Evidence) -> Iterator[str]:
    """Each request a receiver saw has an attempt row that does not deny it (every-try-recorded).

    A relay that died or stalled may have repeated a request on a new connection, and took that knowledge with it:
    one interrupted row stands for all it sent in that attempt.
    """
    rows = evidence.history.by_attempt
    for name, requests in _requests(evidence).items():
        covering = [row for row in rows.get(name, []) if row.may_have_been_seen]
        if len(requests) > len(covering) and not any(row.is_interrupted for row in covering):
            said = [f"{row.outcome}/{row.certainty}/{row.reason}" for row in rows.get(name, [])]
            yield f"{said_of(name)}: {len(requests)} requests ({_did(requests)}), rows: {said}"


def same_identity(evidence: Evidence) -> Iterator[str]:
    """All requests of a delivery have the same id and bytes, and they are what was recorded (same-identity)."""
    recorded = evidence.recorded()
    for (receiver, event_id), requests in evidence.ledger.seen().items():
        if len({(request.body, request.identity) for request in requests}) > 1:
            yield f"event {event_id} for {receiver} changed between attempts"
        row = recorded.get(event_id)
        if row is None:
            continue
        body = json.loads(requests[0].body)
        if (body["type"], body["data"]) != (row.type, row.payload):
            yield f"event {event_id} for {receiver} is not what was recorded"
        if not all(request.is_signed for request in requests):
            yield f"event {event_id} for {receiver} came without a valid signature"


def one_event_per_idempotency_key(evidence: Evidence) -> Iterator[str]:
    """The same idempotency key, committed twice, is one event."""
    ids = defaultdict(set)
    for row in evidence.ledger.recorded:
        if row.idempotency_key is not None and row.ending is Ending.COMMITTED:
            ids[row.idempotency_key].add(row.event_id)
    for key, found in ids.items():
        if len(found) > 1:
            yield f"idempotency key {key} became {len(found)} events"


def hygiene(evidence: Evidence) -> Iterator[str]:
    """No secret and no traceback is in anything printed or kept."""
    details = [row.detail for row in evidence.history.attempts if row.detail]
    for text in (*evidence.outputs, *details, json.dumps(evidence.history.overview)):
        for secret in evidence.secrets:
            if secret in text:
                yield f"a secret is in: {text[:100]!r}"
        if "Traceback" in text:
            yield f"a traceback is in: {text[text.index('Traceback') :][:2000]}"


CHECKS = (
    conservation,
    deaths_explained,
    caller_commits,
    every_try_recorded,
    same_identity,
    key_order,
    honesty,
    duplicates_explained,
    one_event_per_idempotency_key,
    hygiene,
)


def complaints(evidence: Evidence) -> list[str]:
    """Return what all checks find, each with the name of its check."""
    return [f"{check.__name__}: {complaint}" for check in CHECKS for complaint in check(evidence)]


def _requests(evidence: Evidence) -> dict[Name, list[Sighting]]:
    found: dict[Name, list[Sighting]] = defaultdict(list)
    for sighting in evidence.ledger.sightings:
        found[name_of(sighting)].append(sighting)
    return found


def _did(requests: list[Sighting]) -> str:
    return ", ".join(request.did for request in requests)
