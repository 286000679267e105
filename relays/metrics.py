"""The metrics of one relay, for Prometheus. Labels are names of destinations and outcomes, never ids of events."""

from __future__ import annotations

import resource
import sys
from collections import Counter
from typing import TYPE_CHECKING, Protocol

from outbox.model import DestinationState, Outcome
from relays import __version__
from relays.backlog import COUNT_LIMIT
from relays.exposition import Family, Histogram, histogram_family, render

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from relays.backlog import Waiting
    from relays.settlements import Settled
    from relays.slots import Run
    from relays.targets import Target

__all__ = ["Gauges", "Metrics"]

STATEMENT_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
ATTEMPT_BOUNDS = (0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 60.0)


class Gauges(Protocol):
    """What a relay says of itself at this moment."""

    relay_id: int

    @property
    def not_ready_because(self) -> str | None: ...  # noqa: D102 - as in Relay
    @property
    def silent_seconds(self) -> float: ...  # noqa: D102
    @property
    def in_flight(self) -> int: ...  # noqa: D102
    @property
    def concurrency(self) -> int: ...  # noqa: D102
    @property
    def unsettled(self) -> int: ...  # noqa: D102
    @property
    def is_listening(self) -> bool: ...  # noqa: D102
    @property
    def targets(self) -> Sequence[Target]: ...  # noqa: D102


class Metrics:
    """An observer that counts, and the page it makes of that."""

    def __init__(self) -> None:
        self._claimed: Counter[str] = Counter()
        self._attempts: Counter[tuple[str, str]] = Counter()
        self._lost = 0
        self._claim_seconds = Histogram(STATEMENT_BOUNDS)
        self._settle_seconds = Histogram(STATEMENT_BOUNDS)
        self._attempt_seconds: dict[str, Histogram] = {}

    def claimed(self, runs: Sequence[Run], seconds: float) -> None:
        """Count a claim."""
        self._claim_seconds.observe(seconds)
        for run in runs:
            self._claimed[run.target.destination.name] += len(run.deliveries)

    def settled(self, batch: Sequence[Settled], seconds: float) -> None:
        """Count a flush and the attempts in it."""
        self._settle_seconds.observe(seconds)
        for settled in batch:
            name = settled.target.destination.name
            decision = settled.decision
            self._attempts[name, Outcome.DELIVERED if decision is None else decision.outcome] += 1
            if decision is None or decision.outcome is not Outcome.RELEASED:
                self._attempt_histogram(name).observe(settled.ended - settled.started)

    def lost(self, batch: Sequence[Settled]) -> None:
        """Count lost leases."""
        self._lost += len(batch)

    def _attempt_histogram(self, name: str) -> Histogram:
        histogram = self._attempt_seconds.get(name)
        if histogram is None:
            histogram = self._attempt_seconds[name] = Histogram(ATTEMPT_BOUNDS)
        return histogram

    def page(self, relay: Gauges, waiting: Mapping[str, Waiting] | None) -> str:
        """Return the page; `waiting` is None when the database did not say what waits."""
        return render([*self._counted(), *_relay(relay), *_destinations(relay.targets), *_waiting(relay, waiting)])

    def _counted(self) -> Iterator[Family]:
        claimed = Family("outbox_claimed_deliveries_total", "counter", "Deliveries claimed.")
        for destination, count in self._claimed.items():
            claimed.add(count, destination=destination)
        yield claimed
        attempts = Family("outbox_attempts_total", "counter", "Attempts settled, by outcome.")
        for (destination, outcome), count in self._attempts.items():
            attempts.add(count, destination=destination, outcome=outcome)
        yield attempts
        lost = Family("outbox_leases_lost_total", "counter", "Outcomes discarded because the lease was another's.")
        lost.add(self._lost)
        yield lost
        yield histogram_family(
            "outbox_claim_seconds", "Duration of a claim statement in seconds.", {(): self._claim_seconds}
        )
        yield histogram_family(
            "outbox_settle_seconds", "Duration of a settle statement in seconds.", {(): self._settle_seconds}
        )
        yield histogram_family(
            "outbox_attempt_seconds",
            "Duration of an attempt in seconds.",
            {(("destination", name),): histogram for name, histogram in self._attempt_seconds.items()},
        )


def _relay(relay: Gauges) -> Iterator[Family]:
    info = Family("outbox_relay_info", "gauge", "Always 1; which relay this is.")
    info.add(1, relay=str(relay.relay_id), version=__version__)
    yield info
    # ru_maxrss: kilobytes on Linux, bytes on macOS
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    yield from (
        _gauge("outbox_relay_ready", "1 while the relay works, as /readyz.", relay.not_ready_because is None),
        _gauge("outbox_in_flight", "Attempts under way.", relay.in_flight),
        _gauge("outbox_concurrency", "Attempts that may be under way at once.", relay.concurrency),
        _gauge("outbox_unsettled", "Outcomes that are not written yet.", relay.unsettled),
        _gauge("outbox_doorbell_listening", "1 while commits wake the relay, 0 while it polls.", relay.is_listening),
        _gauge("outbox_peak_memory_bytes", "The most memory the process has had resident.", peak),
    )


def _gauge(name: str, text: str, value: float) -> Family:
    family = Family(name, "gauge", text)
    family.add(value)
    return family


def _destinations(targets: Sequence[Target]) -> Iterator[Family]:
    states = Family("outbox_destination_state", "gauge", "1 for the state each served destination is in.")
    for target in targets:
        for state in DestinationState:
            states.add(target.destination.state is state, destination=target.destination.name, state=state)
    yield states


def _waiting(relay: Gauges, waiting: Mapping[str, Waiting] | None) -> Iterator[Family]:
    yield _gauge(
        "outbox_backlog_measured", "1 if the database said what waits; else those are missing.", waiting is not None
    )
    oldest = Family(
        "outbox_oldest_due_seconds",
        "gauge",
        "How long the oldest due delivery of an active destination has been due; 0 when none is.",
    )
    due = Family("outbox_due_deliveries", "gauge", f"Due deliveries, counted up to {COUNT_LIMIT}.")
    dead = Family("outbox_dead_letters", "gauge", f"Dead letters, counted up to {COUNT_LIMIT}.")
    active = {t.destination.name for t in relay.targets if t.destination.state is DestinationState.ACTIVE}
    for name, found in (waiting or {}).items():
        if name in active:
            oldest.add(found.oldest_due_seconds or 0.0, destination=name)
        due.add(found.due, destination=name)
        dead.add(found.dead, destination=name)
    yield from (oldest, due, dead)
