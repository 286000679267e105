"""What is explored: the protocols as they are, in bounds that seconds suffice for, and each way to get them wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.model.fence import FenceModel
from tests.model.lease import LeaseModel
from tests.model.marks import MarksModel

if TYPE_CHECKING:
    from tests.model.explorer import Model


class Case(NamedTuple):
    """A model with its bounds. `fault` is what a variant must be found guilty of; None: it must hold."""

    name: str
    model: Model
    fault: str | None = None


HOLDING = [
    Case("lease: 2 relays, 1 crash, 1 refusal, 1 redrive", LeaseModel()),
    Case("fence: transactions of 1 and 2 events, 1 relay", FenceModel()),
    Case("fence: 3 transactions, 1 relay", FenceModel(events=(1, 1, 1))),
    Case("fence: 2 transactions, 2 relays", FenceModel(events=(1, 1), claimers=2, refusals=0)),
    Case("marks: 2 deliveries, 3 instants", MarksModel(ticks=2, moves=0)),
    Case("marks: 1 delivery moved twice, 4 instants", MarksModel(deliveries=1, moves=2)),
]

LARGE = [
    Case("lease: 3 relays, 2 crashes, 2 refusals", LeaseModel(relays=3, crashes=2, refusals=2)),
    Case("fence: transactions of 1 and 2 events, 2 relays", FenceModel(claimers=2)),
    Case("fence: 3 transactions, 2 relays", FenceModel(events=(1, 1, 1), claimers=2, refusals=0)),
    Case("marks: 2 deliveries moved once, 3 instants", MarksModel(ticks=2)),
]

VARIANTS = [
    Case("settle by id without the token", LeaseModel(settle_matches_token=False), "written twice"),
    Case(
        "the same, with every reply arriving",
        LeaseModel(settle_matches_token=False, replies_are_lost=False),
        "a late writer changed",
    ),
    Case("renew by id without the token", LeaseModel(renew_matches_token=False), "a late writer renewed"),
    Case("the attempt's number as token", LeaseModel(token_is_fresh=False), "written twice"),
    Case("claim reads, then leases, without a row lock", LeaseModel(claim_locks_row=False), "two owners"),
    Case(
        "recovery reads, then takes, without looking again",
        LeaseModel(recovery_is_one_statement=False),
        "a lease that had not lapsed was taken back",
    ),
    Case("nobody recovers lapsed leases", LeaseModel(recovers=False), "stuck"),
    Case("settle without its row of history", LeaseModel(settle_writes_history=False), "every-try-recorded"),
    Case("no fence, only no older row", FenceModel(fencing=("takes a snapshot",)), "key-order"),
    Case("no frontier", FenceModel(fencing=("tries the slot", "takes a snapshot")), "key-order"),
    Case("no slot lock", FenceModel(fencing=("reads the frontier", "takes a snapshot")), "key-order"),
    Case(
        "frontier read after the slot was tried",
        FenceModel(fencing=("tries the slot", "reads the frontier", "takes a snapshot")),
        "key-order",
    ),
    Case(
        "snapshot taken before the slot is tried",
        FenceModel(fencing=("reads the frontier", "takes a snapshot", "tries the slot")),
        "key-order",
    ),
    Case(
        "recorder draws its id before it locks",
        FenceModel(recording=("draws an id", "locks the slot", "inserts", "ends")),
        "key-order",
    ),
    Case(
        "recorder unlocks before it commits",
        FenceModel(recording=("locks the slot", "draws an id", "inserts", "unlocks", "ends")),
        "key-order",
    ),
    Case(
        "followers are not held to the frontier",
        FenceModel(events=(1, 1, 1), run_keeps_to_frontier=False),
        "key-order",
    ),
    Case("a run goes on after a refusal", FenceModel(run_stops_when_refused=False), "key-order"),
    Case("the head is the oldest that is due", FenceModel(head_is_oldest=False), "key-order"),
    Case(
        "a claim locks what its snapshot showed, unchecked",
        FenceModel(events=(1, 1), claimers=2, claim_checks_again=False),
        "two owners",
    ),
    Case(
        "the clock is read after the locks",
        MarksModel(sweeping=("lists writers", "reads the clock", "looks for open rows")),
        "behind the safe mark",
    ),
    Case(
        "the mark passes open transactions",
        MarksModel(sweeping=("reads the clock", "looks for open rows")),
        "behind the safe mark",
    ),
    Case("the mark passes open rows", MarksModel(mark_stops_at_open_rows=False), "behind the safe mark"),
    Case(
        "open rows are looked for before the locks are read",
        MarksModel(sweeping=("looks for open rows", "reads the clock", "lists writers")),
        "behind the safe mark",
    ),
    Case(
        "recorder reads the clock before it locks the table",
        MarksModel(writing=("reads the clock", "locks the table", "ends")),
        "behind the safe mark",
    ),
    Case(
        "recorder unlocks the table before it commits",
        MarksModel(writing=("locks the table", "reads the clock", "unlocks", "ends")),
        "behind the safe mark",
    ),
    Case("nobody claims behind the low-water mark", MarksModel(ticks=1, moves=0, claims_from_safe_mark=False), "stuck"),
]
