"""The key fence: recorders that commit in any order, claims that must not let a later event overtake an earlier one.

All events have one key and one destination. A recorder's transaction takes the slot's shared lock, then for each of its
events draws an id and inserts a row nobody else sees; when it ends, its rows become visible and the lock is let go.
A claim reads the frontier, tries the lock, takes a snapshot, and locks rows, in four steps between which anything can
happen. Leases do not lapse here: that protocol is explored by itself (lease.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

EVERYTHING = 99


class Row(NamedTuple):
    """A committed, open delivery of the key."""

    id: int
    token: int = 0
    refusals: int = 0


class Recorder(NamedTuple):
    """A transaction: what it has left to do, the id drawn but not inserted, the rows inserted, the lock."""

    plan: tuple[str, ...]
    drawn: int = 0
    inserted: tuple[int, ...] = ()
    is_locking: bool = False


class Claimer(NamedTuple):
    """A relay: where its claim stands (`at` counts the steps taken), what it knows, and the run it sends."""

    at: int = 0
    frontier: int = 0
    is_free: bool = False
    seen: tuple[Row, ...] = ()
    token: int = 0
    run: tuple[int, ...] = ()
    outcomes: tuple[str, ...] = ()


class State(NamedTuple):
    """Everything. `last_sent` is the highest id a destination has been given; `broken` what went wrong."""

    recorders: tuple[Recorder, ...]
    claimers: tuple[Claimer, ...]
    sequence: int = 0
    rows: tuple[Row, ...] = ()
    tokens: int = 0
    last_sent: int = 0
    broken: str | None = None


RECORDING = ("locks the slot", "draws an id", "inserts", "ends")
FENCING = ("reads the frontier", "tries the slot", "takes a snapshot")


@dataclass(frozen=True)
class FenceModel:
    """The fence, and the ways to get it wrong. `events` are the numbers of events each transaction records."""

    events: tuple[int, ...] = (1, 2)
    claimers: int = 1
    run_limit: int = 2
    refusals: int = 1
    recording: tuple[str, ...] = RECORDING
    fencing: tuple[str, ...] = FENCING
    run_keeps_to_frontier: bool = True
    run_stops_when_refused: bool = True
    head_is_oldest: bool = True
    claim_checks_again: bool = True

    def start(self) -> State:
        """Return transactions that have not begun, and idle relays."""
        recorders = tuple(Recorder(self._plan(count)) for count in self.events)
        return State(recorders, (Claimer(),) * self.claimers)

    def _plan(self, events: int) -> tuple[str, ...]:
        """Return the steps of a transaction: each event's by turns, then its end; locks are taken once."""
        draws = [step for step in self.recording if step in ("draws an id", "inserts")]
        first = self.recording[: self.recording.index("inserts") + 1]
        return first + tuple(draws) * (events - 1) + self.recording[len(first) :]

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        """Yield what each transaction and each relay could do."""
        for number, recorder in enumerate(state.recorders):
            for label, following in _record(state, number, recorder):
                yield f"recorder {number + 1} {label}", following
        for number, claimer in enumerate(state.claimers):
            for label, following in self._claimer_steps(state, number, claimer):
                yield f"relay {'AB'[number]} {label}", following

    def fault(self, state: State) -> str | None:
        """Return how order was broken, or who has two owners."""
        return state.broken

    def is_over(self, state: State) -> bool:
        """Every transaction has ended, and everything committed is delivered."""
        is_recorded = not any(recorder.plan for recorder in state.recorders)
        return is_recorded and not state.rows and all(claimer == Claimer() for claimer in state.claimers)

    # ------------------------------------------------------------------ a relay

    def _claimer_steps(self, state: State, number: int, claimer: Claimer) -> Iterator[tuple[str, State]]:
        if claimer.run or claimer.outcomes:
            yield from self._work(state, number, claimer)
        elif claimer.at < len(self.fencing):
            step = self.fencing[claimer.at]
            yield step, _with_claimer(state, number, _fenced(state, claimer, step)._replace(at=claimer.at + 1))
        else:
            yield from self._lock(state, number, claimer)

    def _lock(self, state: State, number: int, claimer: Claimer) -> Iterator[tuple[str, State]]:
        """The end of claim_keyed.sql: the rows chosen from the snapshot are locked, checked again, and leased."""
        chosen = self._choose(claimer)
        current = {row.id: row for row in state.rows}
        if self.claim_checks_again:
            still = [row for row in chosen if current.get(row.id) == row]
            chosen = still if still[:1] == chosen[:1] else []
        chosen = [row for row in chosen if row.id in current]
        if not chosen:
            yield "finds nothing", _with_claimer(state, number, Claimer())
            return
        ids = tuple(row.id for row in chosen)
        token = state.tokens + 1
        broken = "a delivery has two owners (lease-token)" if any(current[i].token for i in ids) else state.broken
        rows = tuple(row._replace(token=token) if row.id in ids else row for row in state.rows)
        state = state._replace(rows=rows, tokens=token, broken=broken)
        yield f"claims {ids}", _with_claimer(state, number, Claimer(token=token, run=ids))

    def _choose(self, claimer: Claimer) -> list[Row]:
        """Return the head of the key and its followers, as the snapshot shows them."""
        frontier = claimer.frontier if "reads the frontier" in self.fencing else EVERYTHING
        is_free = claimer.is_free or "tries the slot" not in self.fencing
        head = _head(claimer.seen, is_oldest=self.head_is_oldest)
        if head is None or not is_free or head.id > frontier:
            return []
        run = [head]
        for row in claimer.seen:
            if row.id <= head.id:
                continue
            is_behind = row.id <= frontier or not self.run_keeps_to_frontier
            if row.token or row.refusals or not is_behind or len(run) == self.run_limit:
                break
            run.append(row)
        return run

    def _work(self, state: State, number: int, claimer: Claimer) -> Iterator[tuple[str, State]]:
        """Send the next of the run, or settle: what was not sent is released."""
        sent = len(claimer.outcomes)
        is_stopped = self.run_stops_when_refused and "refused" in claimer.outcomes
        if sent == len(claimer.run) or is_stopped:
            yield f"settles {', '.join(claimer.outcomes)}", self._settle(state, number, claimer)
            return
        delivery_id = claimer.run[sent]
        refusals = next(row.refusals for row in state.rows if row.id == delivery_id)
        for outcome in ("delivered", *(["refused"] if refusals < self.refusals else [])):
            following = claimer._replace(outcomes=(*claimer.outcomes, outcome))
            yield f"sends {delivery_id}: {outcome}", _with_claimer(_sent(state, claimer, sent), number, following)

    def _settle(self, state: State, number: int, claimer: Claimer) -> State:
        outcomes = dict(zip(claimer.run, claimer.outcomes, strict=False))
        rows = []
        for row in state.rows:
            if row.token != claimer.token or row.id not in claimer.run:
                rows.append(row)
            elif outcomes.get(row.id) != "delivered":
                rows.append(row._replace(token=0, refusals=row.refusals + (outcomes.get(row.id) == "refused")))
        return _with_claimer(state._replace(rows=tuple(rows)), number, Claimer())


def _with_claimer(state: State, number: int, claimer: Claimer) -> State:
    claimers = state.claimers
    return state._replace(claimers=(*claimers[:number], claimer, *claimers[number + 1 :]))


def _fenced(state: State, claimer: Claimer, step: str) -> Claimer:
    """One step of fence_keys.sql, or the snapshot of claim_keyed.sql. The lock is tried and released at once."""
    if step == "reads the frontier":
        return claimer._replace(frontier=state.sequence)
    if step == "tries the slot":
        return claimer._replace(is_free=not any(recorder.is_locking for recorder in state.recorders))
    return claimer._replace(seen=state.rows)


def _head(rows: Sequence[Row], *, is_oldest: bool) -> Row | None:
    """Return the oldest open row if it is not leased; `is_oldest` off: the oldest that is due and free."""
    if is_oldest:
        return rows[0] if rows and not rows[0].token else None
    return next((row for row in rows if not row.token and not row.refusals), rows[0] if rows else None)


def _sent(state: State, claimer: Claimer, place: int) -> State:
    """Give a delivery to the destination, and note if it should not have been."""
    delivery_id = claimer.run[place]
    refused = {i for i, outcome in zip(claimer.run, claimer.outcomes, strict=False) if outcome == "refused"}
    accepted = set(claimer.run[:place]) - refused
    earlier = [row.id for row in state.rows if row.id < delivery_id and row.id not in accepted]
    broken = state.broken
    if earlier:
        broken = f"{delivery_id} is sent while {earlier[0]} is unfinished (key-order)"
    elif delivery_id < state.last_sent:
        broken = f"{delivery_id} is sent after {state.last_sent} (key-order)"
    return state._replace(last_sent=max(state.last_sent, delivery_id), broken=broken)


# ---------------------------------------------------------------------- a recorder


def _record(state: State, number: int, recorder: Recorder) -> Iterator[tuple[str, State]]:
    if not recorder.plan:
        return
    step, *rest = recorder.plan
    after = recorder._replace(plan=tuple(rest))
    if step == "draws an id":
        drawn = state.sequence + 1
        yield f"draws id {drawn}", _with_recorder(state._replace(sequence=drawn), number, after._replace(drawn=drawn))
    elif step == "inserts":
        inserted = (*after.inserted, after.drawn)
        yield f"inserts {after.drawn}", _with_recorder(state, number, after._replace(drawn=0, inserted=inserted))
    elif step == "ends":
        visible = tuple(sorted((*state.rows, *map(Row, after.inserted))))
        ended = after._replace(inserted=(), is_locking=False)
        yield "commits", _with_recorder(state._replace(rows=visible), number, ended)
        yield "rolls back", _with_recorder(state, number, ended)
    else:
        yield step, _with_recorder(state, number, after._replace(is_locking=step == "locks the slot"))


def _with_recorder(state: State, number: int, recorder: Recorder) -> State:
    recorders = state.recorders
    return state._replace(recorders=(*recorders[:number], recorder, *recorders[number + 1 :]))
