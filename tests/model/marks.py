"""The low-water mark and the safe mark: claims start late in the queue, and still nothing committed is lost.

Transactions insert a delivery, or move a leased one to a fresh `due_at` (a retry, a release, a recovered lease). Each
takes the row-exclusive lock on outbox.deliveries, reads the clock, and ends: it is visible, and the lock is let go. One
relay claims behind its low-water mark, and sweeps: it reads the clock, lists who holds the lock, looks for the first
open row and moves its safe mark; then it may claim from there. The clock is a step, too; a position in the queue is
(due_at, id).
The complete sweep once a minute is left out: it is there for clocks that step back, and would hide every fault here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

Mark = tuple[int, int]
START: Mark = (-1, 0)


class Row(NamedTuple):
    """A delivery as others see it, and the transaction that is writing it: what it has left to do, and its clock."""

    place: str = "none"
    due_at: int = 0
    plan: tuple[str, ...] = ()
    new_due_at: int = 0
    is_locking: bool = False
    transaction: int = 0


class Sweep(NamedTuple):
    """A sweep under way, and what sweeps know: a time with the writers to wait for, and the last time decided."""

    at: int = 0
    now: int = 0
    writers: frozenset[tuple[int, int]] = frozenset()
    first: Mark | None = None
    undecided: tuple[int, frozenset[tuple[int, int]]] | None = None
    decided_at: int = -1


class State(NamedTuple):
    """Everything; rows are numbered from 1, which is their id."""

    clock: int
    rows: tuple[Row, ...]
    sweep: Sweep = Sweep()
    low: Mark = START
    safe: Mark = START


WRITING = ("locks the table", "reads the clock", "ends")
SWEEPING = ("reads the clock", "lists writers", "looks for open rows")


@dataclass(frozen=True)
class MarksModel:
    """The marks, and the ways to get them wrong. `ticks` is how far the clock goes."""

    deliveries: int = 2
    ticks: int = 3
    moves: int = 1
    writing: tuple[str, ...] = WRITING
    sweeping: tuple[str, ...] = SWEEPING
    mark_stops_at_open_rows: bool = True
    claims_from_safe_mark: bool = True

    def start(self) -> State:
        """Return an empty table and transactions that have not begun."""
        return State(0, (Row(plan=self.writing),) * self.deliveries)

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        """Yield what the clock, each transaction and the relay could do."""
        if state.clock < self.ticks:
            yield "the clock ticks", state._replace(clock=state.clock + 1)
        for number, row in enumerate(state.rows, 1):
            for label, following in self._row_steps(state.clock, row):
                yield f"{label} of {number}", _with_row(state, number, following)
        marks = [max(state.low, state.safe), *([state.safe] if self.claims_from_safe_mark else [])]
        for found in {_first(state, mark, is_free=True) for mark in marks} - {None}:
            yield f"relay claims {found[1]}", _leased(state, found)
        yield self._swept(state)

    def fault(self, state: State) -> str | None:
        """Return which committed row lies behind the safe mark, where nobody looks any more."""
        for number, row in enumerate(state.rows, 1):
            if row.place in ("open", "leased") and (row.due_at, number) <= state.safe:
                return f"{number} is {row.place} behind the safe mark (at-least-once)"
        return None

    def is_over(self, state: State) -> bool:
        """Every transaction has ended, and what was committed is delivered."""
        return all(row.place in ("none", "gone") and not row.plan for row in state.rows)

    def _row_steps(self, clock: int, row: Row) -> Iterator[tuple[str, Row]]:
        who = "recorder" if row.place == "none" or row.transaction == 0 else "mover"
        if row.plan:
            step, *rest = row.plan
            after = row._replace(plan=tuple(rest))
            if step == "reads the clock":
                yield f"{who} reads {clock}", after._replace(new_due_at=clock)
            elif step == "ends":
                ended = after._replace(is_locking=False, new_due_at=0)
                yield f"{who} commits", ended._replace(place="open", due_at=row.new_due_at)
                yield f"{who} rolls back", ended
            else:
                yield f"{who} {step}", after._replace(is_locking=step == "locks the table")
        elif row.place == "leased":
            yield "delivery", Row("gone")
            if row.transaction < self.moves:
                yield "retry", row._replace(plan=self.writing, transaction=row.transaction + 1)

    def _swept(self, state: State) -> tuple[str, State]:
        at = state.sweep.at
        step = self.sweeping[at]
        if step == "reads the clock":
            sweep = state.sweep._replace(now=state.clock)
        elif step == "lists writers":
            sweep = state.sweep._replace(writers=_writers(state))
        else:
            sweep = state.sweep._replace(first=_first(state, state.safe, is_free=False))
        state = state._replace(sweep=sweep._replace(at=at + 1))
        return f"sweep {step}", self._moved(state) if at + 1 == len(self.sweeping) else state

    def _moved(self, state: State) -> State:
        """Sweeps._decide and Sweeps._move: the latest time that is decided, but never past an open row."""
        sweep = _decided(state.sweep)
        mark = (sweep.decided_at, 0)
        if sweep.first is not None and self.mark_stops_at_open_rows:
            mark = min(mark, (sweep.first[0], sweep.first[1] - 1))
        known = Sweep(undecided=sweep.undecided, decided_at=sweep.decided_at)
        return state._replace(safe=max(state.safe, mark), sweep=known)


def _writers(state: State) -> frozenset[tuple[int, int]]:
    """list_recorders.sql: the transactions that hold the lock."""
    return frozenset((number, row.transaction) for number, row in enumerate(state.rows, 1) if row.is_locking)


def _decided(sweep: Sweep) -> Sweep:
    undecided, decided_at = sweep.undecided, sweep.decided_at
    if undecided is not None:
        undecided = (undecided[0], undecided[1] & sweep.writers)
        if not undecided[1]:
            undecided, decided_at = None, undecided[0]
    if undecided is None:
        if sweep.writers:
            undecided = (sweep.now, sweep.writers)
        else:
            decided_at = sweep.now
    return sweep._replace(undecided=undecided, decided_at=decided_at)


def _first(state: State, mark: Mark, *, is_free: bool) -> Mark | None:
    """Return the first open row behind `mark`; `is_free`: that is due and not leased."""
    places = ("open",) if is_free else ("open", "leased")
    positions = [
        (row.due_at, number)
        for number, row in enumerate(state.rows, 1)
        if row.place in places and (row.due_at <= state.clock or not is_free)
    ]
    return min((position for position in positions if position > mark), default=None)


def _leased(state: State, position: Mark) -> State:
    """Lease a row, and move the low-water mark up to it."""
    row = state.rows[position[1] - 1]
    return _with_row(state._replace(low=max(state.low, position)), position[1], row._replace(place="leased"))


def _with_row(state: State, number: int, row: Row) -> State:
    rows = state.rows
    return state._replace(rows=(*rows[: number - 1], row, *rows[number:]))
