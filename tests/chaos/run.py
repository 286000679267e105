"""One run: break things for a while by a plan, let all heal, and compare what both sides say."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.chaos.checks import complaints
from tests.chaos.duplicates import duplicates
from tests.chaos.plan import Kind, fault_plan
from tests.chaos.world import RECEIVERS, RELAYS, World

if TYPE_CHECKING:
    from tests.chaos.evidence import Evidence

__all__ = ["DRAIN_SECONDS", "Report", "run"]

DRAIN_SECONDS = 240.0
"""Far more than a starved machine needs: suspects go one at a time, and lapsed leases are waited for."""


@dataclass(frozen=True)
class Report:
    """What a run did and found; `complaints` must be empty."""

    seed: int
    seconds: float
    drain_seconds: float
    injected: Counter[Kind]
    events: int
    rolled_back: int
    requests: int
    dead: Counter[str]
    duplicates: Counter[str]
    relay_starts: int
    complaints: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return it as text."""
        return [
            f"seed {self.seed}: {self.seconds:.0f} s of faults, {self.drain_seconds:.0f} s to drain",
            f"  {self.relay_starts} relays started",
            f"  {sum(self.injected.values())} faults: {_listed(self.injected)}",
            f"  {self.events} events committed, {self.rolled_back} rolled back, {self.requests} requests seen",
            f"  dead: {_listed(self.dead)}",
            f"  taken more than once: {_listed(self.duplicates)}",
            f"  complaints: {len(self.complaints)}",
            *(f"    {complaint}" for complaint in self.complaints[:50]),
        ]


def run(seed: int, seconds: float) -> Report:
    """Break things for `seconds` as `seed` says, heal, drain and check."""
    with World(seed) as world:
        world.suffer(fault_plan(seed, seconds, relays=RELAYS, receivers=RECEIVERS), seconds)
        healed = time.monotonic()
        world.drain(DRAIN_SECONDS)
        drained = time.monotonic()
        return _report(seed, seconds, drained - healed, world, world.evidence())


def _report(seed: int, seconds: float, drain_seconds: float, world: World, evidence: Evidence) -> Report:
    return Report(
        seed=seed,
        seconds=seconds,
        drain_seconds=drain_seconds,
        injected=world.injected,
        events=len(evidence.recorded()),
        rolled_back=len({row.event_id for row in evidence.ledger.recorded} - evidence.recorded().keys()),
        requests=len(evidence.ledger.sightings),
        dead=Counter(evidence.history.dead.values()),
        duplicates=Counter(explanation or "unexplained" for _, explanation in duplicates(evidence)),
        relay_starts=world.relay_starts,
        complaints=complaints(evidence) + world.relay_faults,
    )


def _listed(counts: Counter[str] | Counter[Kind]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common()) or "none"
