"""The lease protocol: one delivery, some relays that claim, send, renew, stall, crash and settle, and an operator.

A step is one statement of relays/queries (each is atomic: it locks its row, and checks its conditions on the locked
version). Time is a step, too: any lease may lapse at any moment. A stalled relay is one whose next step comes late, so
every order of steps is every stall. What the protocol does not know, but the checks need, is kept in `Ghost`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

DEAD_AFTER = 2
"""Interruptions until dead: four in the product; two bound the model."""


class Row(NamedTuple):
    """The row of outbox.deliveries, or what became of it: open, gone (delivered) or dead."""

    place: str = "open"
    token: int = 0
    has_lapsed: bool = False
    attempt: int = 0
    interruptions: int = 0


class Relay(NamedTuple):
    """What a relay has in its memory: nothing, a token, or a token and the outcome of its attempt."""

    token: int = 0
    outcome: str = ""
    claim: int = 0


class Ghost(NamedTuple):
    """The truth: which claim owns the delivery, which ones wrote an outcome, and which lack their row of history."""

    owner: int = 0
    claims: int = 0
    settled: frozenset[int] = frozenset()
    unwritten: frozenset[int] = frozenset()
    rows: int = 0
    broken: str | None = None


class State(NamedTuple):
    """Everything. `crashes`, `refusals`, `redrives` may still happen so often; `looked` is a recovery's half step."""

    row: Row
    relays: tuple[Relay, ...]
    ghost: Ghost
    crashes: int
    refusals: int
    redrives: int
    looked: bool = False


@dataclass(frozen=True)
class LeaseModel:
    """The protocol, and the ways to get it wrong."""

    relays: int = 2
    crashes: int = 1
    refusals: int = 1
    redrives: int = 1
    claim_locks_row: bool = True
    settle_matches_token: bool = True
    settle_writes_history: bool = True
    renew_matches_token: bool = True
    token_is_fresh: bool = True
    recovers: bool = True
    recovery_is_one_statement: bool = True
    replies_are_lost: bool = True

    def start(self) -> State:
        """Return one committed delivery and idle relays."""
        return State(Row(), (Relay(),) * self.relays, Ghost(), self.crashes, self.refusals, self.redrives)

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        """Yield what each relay, time, a sweep and the operator could do."""
        for number, relay in enumerate(state.relays):
            name = f"relay {'ABC'[number]}"
            for label, following in self._relay_steps(state, number, relay):
                yield f"{name} {label}", following
        yield from self._surroundings(state)

    def fault(self, state: State) -> str | None:
        """Return what is broken: settled twice, by a late writer, two owners, or history that does not add up."""
        row, ghost = state.row, state.ghost
        if ghost.broken:
            return ghost.broken
        if row.place == "open" and row.attempt != ghost.rows + bool(row.token):
            return f"attempt is {row.attempt} with {ghost.rows} rows of history (every-try-recorded)"
        if self.is_over(state) and ghost.unwritten:
            return "an attempt ended without a row of history (every-try-recorded)"
        return None

    def is_over(self, state: State) -> bool:
        """Delivered or visibly dead, and no relay holds anything."""
        return state.row.place != "open" and all(relay == Relay() for relay in state.relays)

    # ------------------------------------------------------------------ a relay

    def _relay_steps(self, state: State, number: int, relay: Relay) -> Iterator[tuple[str, State]]:
        if relay.claim == 0:
            yield from self._claim(state, number, relay)
            return
        if relay.outcome == "":
            yield from self._send(state, number, relay)
        else:
            settled = self._settle(state, relay)
            yield f"settles {relay.outcome}", _with_relay(settled, number, Relay())
            if self.replies_are_lost:
                yield f"settles {relay.outcome}, the reply is lost", settled
        yield from self._renew(state, relay)
        if state.crashes:
            yield "crashes", _with_relay(state._replace(crashes=state.crashes - 1), number, Relay())

    def _claim(self, state: State, number: int, relay: Relay) -> Iterator[tuple[str, State]]:
        is_free = state.row.place == "open" and state.row.token == 0
        if self.claim_locks_row:
            if is_free:
                yield "claims", self._take(state, number)
            return
        if relay.outcome == "seen" and state.row.place == "open":
            yield "leases what it saw", self._take(state, number)
        if relay.outcome == "seen":
            yield "finds nothing", _with_relay(state, number, Relay())
        elif is_free:
            yield "sees it free", _with_relay(state, number, Relay(outcome="seen"))

    def _take(self, state: State, number: int) -> State:
        row, ghost = state.row, state.ghost
        claim = ghost.claims + 1
        token = claim if self.token_is_fresh else row.attempt + 1
        broken = "a delivery has two owners (lease-token)" if ghost.owner else ghost.broken
        return _with_relay(
            state._replace(
                row=row._replace(token=token, has_lapsed=False, attempt=row.attempt + 1),
                ghost=ghost._replace(owner=claim, claims=claim, unwritten=ghost.unwritten | {claim}, broken=broken),
            ),
            number,
            Relay(token, "", claim),
        )

    def _send(self, state: State, number: int, relay: Relay) -> Iterator[tuple[str, State]]:
        outcomes = ["delivered", *(["retry", "dead", "released"] if state.refusals else [])]
        for outcome in outcomes:
            left = state._replace(refusals=state.refusals - (outcome != "delivered"))
            label = "stops before sending" if outcome == "released" else f"sends: {outcome}"
            yield label, _with_relay(left, number, relay._replace(outcome=outcome))

    def _settle(self, state: State, relay: Relay) -> State:
        """settle.sql: nothing happens unless the row is there and carries the token."""
        row, ghost = state.row, state.ghost
        if row.place != "open" or (self.settle_matches_token and row.token != relay.token):
            return state
        broken = ghost.broken
        if relay.claim in ghost.settled:
            broken = "an outcome was written twice (lease-token)"
        elif relay.claim != ghost.owner:
            broken = "a late writer changed the delivery (lease-token)"
        is_written = relay.outcome == "released" or self.settle_writes_history
        ghost = ghost._replace(
            owner=0,
            settled=ghost.settled | {relay.claim},
            unwritten=ghost.unwritten - {relay.claim} if is_written else ghost.unwritten,
            rows=ghost.rows + (relay.outcome != "released"),
            broken=broken,
        )
        return state._replace(row=_settled(row, relay.outcome), ghost=ghost)

    def _renew(self, state: State, relay: Relay) -> Iterator[tuple[str, State]]:
        """renew_leases.sql: a lease that lapsed and was not retaken yet may be kept."""
        row, ghost = state.row, state.ghost
        if row.token == 0 or not row.has_lapsed or (self.renew_matches_token and row.token != relay.token):
            return
        if relay.claim != ghost.owner:
            ghost = ghost._replace(broken="a late writer renewed another's lease (lease-token)")
        yield "renews", state._replace(row=row._replace(has_lapsed=False), ghost=ghost)

    # ------------------------------------------------------------------ time, sweeps, the operator

    def _surroundings(self, state: State) -> Iterator[tuple[str, State]]:
        row = state.row
        if row.token and not row.has_lapsed:
            yield "the lease lapses", state._replace(row=row._replace(has_lapsed=True))
        if self.recovers:
            yield from self._sweep(state)
        if row.place == "dead" and state.redrives:
            ghost = state.ghost._replace(rows=0)
            yield "operator redrives", state._replace(row=Row(), ghost=ghost, redrives=state.redrives - 1)

    def _sweep(self, state: State) -> Iterator[tuple[str, State]]:
        row = state.row
        has_lapsed = row.token != 0 and row.has_lapsed
        if self.recovery_is_one_statement:
            if has_lapsed:
                yield "sweep recovers", _recovered(state)
        elif state.looked:
            left = state._replace(looked=False)
            yield "sweep recovers what it saw", _recovered(left) if row.token else left
        elif has_lapsed:
            yield "sweep sees a lapsed lease", state._replace(looked=True)


def _with_relay(state: State, number: int, relay: Relay) -> State:
    relays = state.relays
    return state._replace(relays=(*relays[:number], relay, *relays[number + 1 :]))


def _settled(row: Row, outcome: str) -> Row:
    if outcome == "delivered":
        return Row("gone")
    if outcome == "dead":
        return Row("dead")
    return row._replace(token=0, has_lapsed=False, attempt=row.attempt - (outcome == "released"))


def _recovered(state: State) -> State:
    """recover_lapsed.sql: one row of history, one interruption more, dead when there were too many."""
    row, ghost = state.row, state.ghost
    broken = ghost.broken if row.has_lapsed else "a lease that had not lapsed was taken back (lease-token)"
    ghost = ghost._replace(owner=0, unwritten=ghost.unwritten - {ghost.owner}, rows=ghost.rows + 1, broken=broken)
    row = row._replace(token=0, has_lapsed=False, interruptions=row.interruptions + 1)
    return state._replace(row=Row("dead") if row.interruptions >= DEAD_AFTER else row, ghost=ghost)
