"""Claims due deliveries for the destinations that have room (promises lease-token, key-order, flat)."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from relays.arrays import numbers, texts
from relays.deliveries import Delivery
from relays.slots import Run
from relays.targets import Mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from relays.sessions import Session
    from relays.targets import Target

__all__ = ["Ask", "Claimed", "Claims"]

SCAN_LIMIT = 1000
"""Rows a keyed claim looks at per destination: most may be blocked where one key is hot."""

RUN_LIMIT = 20
"""Followers claimed behind the head of a key."""


class Ask(NamedTuple):
    """What is asked of the database for one destination: at most `room` deliveries behind `mark`."""

    target: Target
    room: int
    mark: Mark


class _Note(NamedTuple):
    """What a keyed claim says of a destination: heads held back by the fence, and where its scan was cut."""

    fenced: int
    cut_at: Mark | None


@dataclass(slots=True)
class Claimed:
    """What a claim brought. `fenced` counts heads of keys held back by a recorder's open transaction."""

    runs: list[Run] = field(default_factory=list)
    fenced: int = 0

    @property
    def count(self) -> int:
        """How many deliveries are leased."""
        return sum(len(run.deliveries) for run in self.runs)


class Claims:
    """The claiming statements over one session; moves the marks of the targets it is asked for."""

    def __init__(self, session: Session, relay_id: int) -> None:
        self._session = session
        self._relay_id = relay_id

    async def without_keys(self, asks: Sequence[Ask]) -> Claimed:
        """Claim deliveries without a key: one statement, whatever the number of destinations."""
        rows = await self._session.rows("claim", {"relay_id": self._relay_id, **_asked(asks)})
        runs = _runs(rows, {ask.target.destination.id: ask.target for ask in asks})
        lasts = _lasts(rows)
        for ask in asks:
            count, last = lasts.get(ask.target.destination.id, (0, None))
            ask.target.claimed(last, is_exhausted=count < ask.room)
        return Claimed(runs)

    async def with_keys(self, asks: Sequence[Ask], *, suspects: bool = False) -> Claimed:
        """Claim where keys are in use, behind the fence; with `suspects`, only what a relay died with."""
        going_on = [(ask.target, key) for ask in asks for key in islice(ask.target.keys_going_on, ask.room)]
        keys = {
            "key_destination_ids": numbers(target.destination.id for target, _ in going_on),
            "keys": texts(key for _, key in going_on),
        }
        [fence] = await self._session.named_rows("fence_keys", {"scan_limit": SCAN_LIMIT, **keys, **_asked(asks)})
        rows = await self._session.rows(
            "claim_keyed",
            {
                "relay_id": self._relay_id,
                "suspects": suspects,
                "scan_limit": SCAN_LIMIT,
                "run_limits": numbers(0 if ask.target.policy.rate_per_second else RUN_LIMIT for ask in asks),
                "frontier": fence.frontier,
                "free_slots": fence.free_slots,
                "high_due_ats": texts(_high(ask.target) if suspects else "infinity" for ask in asks),
                "blocks": numbers(ask.target.policy.on_dead == "block" for ask in asks),
                **keys,
                **_asked(asks),
            },
        )
        claimed_rows, notes = _separate(rows)
        for target, key in going_on:
            target.keys_going_on.discard(key)  # claimed first; what the fence held back is found by a sweep
        if not suspects:
            self._move_marks(asks, claimed_rows, notes)
        targets = {ask.target.destination.id: ask.target for ask in asks}
        return Claimed(_runs(claimed_rows, targets), sum(note.fenced for note in notes.values()))

    def _move_marks(self, asks: Sequence[Ask], rows: list[tuple[Any, ...]], notes: dict[int, _Note]) -> None:
        lasts = _lasts(rows)
        for ask in asks:
            target = ask.target
            count, last = lasts.get(target.destination.id, (0, None))
            cut_at = notes[target.destination.id].cut_at if target.destination.id in notes else None
            if count < ask.room and cut_at is not None:
                last = cut_at  # blocked rows up to here; the rest is looked at next
            target.claimed(last, is_exhausted=count < ask.room and cut_at is None)
            target.may_have_due = target.may_have_due or bool(target.keys_going_on)

    async def has_keyed_rows(self, asks: Sequence[Ask]) -> bool:
        """Tell whether keyed deliveries are due behind the marks: an unkeyed claim does not see them."""
        parameters = {"scan_limit": SCAN_LIMIT, "keys": "{}", **_asked(asks)}
        [fence] = await self._session.named_rows("fence_keys", parameters)
        return bool(fence.has_candidates)


def _high(target: Target) -> str:
    """Return how far suspects are looked for: behind what was walked, or everywhere once nothing more is due."""
    return str(target.furthest) if target.may_have_due else "infinity"


def _asked(asks: Sequence[Ask]) -> dict[str, Any]:
    return {
        "destination_ids": numbers(ask.target.destination.id for ask in asks),
        "rooms": numbers(ask.room for ask in asks),
        "lease_seconds": numbers(ask.target.lease_seconds for ask in asks),
        "low_due_ats": texts(str(ask.mark) for ask in asks),
        "low_ids": numbers(ask.mark.id for ask in asks),
    }


def _separate(rows: Iterable[tuple[Any, ...]]) -> tuple[list[tuple[Any, ...]], dict[int, _Note]]:
    """Return the rows of claimed deliveries, and the notes per destination that came with them."""
    claimed = []
    notes = {}
    for row in rows:
        delivery_id, _, destination_id, fenced, _, _, last_id, last_due_at, *_ = row
        if delivery_id is not None:
            claimed.append(row)
        else:
            notes[destination_id] = _Note(fenced, None if last_due_at is None else Mark(last_due_at, last_id))
    return claimed, notes


def _lasts(rows: Iterable[tuple[Any, ...]]) -> dict[int, tuple[int, Mark | None]]:
    """Return per destination how many runs were claimed, and how far the scan came that found them."""
    lasts: dict[int, tuple[int, Mark | None]] = {}
    for delivery_id, _, destination_id, _, _, _, head_id, scanned_due_at, *_ in rows:
        count, last = lasts.get(destination_id, (0, None))
        if scanned_due_at is not None:
            mark = Mark(scanned_due_at, delivery_id)
            last = mark if last is None or last < mark else last
        lasts[destination_id] = (count + (head_id is None or head_id == delivery_id), last)
    return lasts


def _runs(rows: Iterable[tuple[Any, ...]], targets: dict[int, Target]) -> list[Run]:
    runs: list[Run] = []
    by_head: dict[int, Run] = {}
    for (
        delivery_id,
        event_id,
        destination_id,
        attempt,
        interruptions,
        key,
        head_id,
        _scanned_due_at,
        recorded_at,
        lease_token,
        recipient,
        event_type,
        body,
        headers,
    ) in rows:
        target = targets[destination_id]
        delivery = Delivery(
            id=delivery_id,
            event_id=event_id,
            destination=target.destination,
            attempt=attempt,
            type=event_type,
            body=body,
            headers_json=headers,
            key=key,
            recorded_at=recorded_at,
            deadline_seconds=target.policy.timeout,
            lease_token=lease_token,
            interruptions=interruptions,
            recipient=recipient,
        )
        if key is None:
            runs.append(Run(target, [delivery]))
        elif head_id in by_head:
            by_head[head_id].deliveries.append(delivery)
        else:
            by_head[head_id] = Run(target, [delivery])
    for run in by_head.values():
        run.deliveries.sort(key=lambda delivery: delivery.id)
    return runs + list(by_head.values())
