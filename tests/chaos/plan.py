"""Which faults happen when: a pure function of the seed, so that a run can be played again."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Fault", "Kind", "fault_plan"]


class Kind(StrEnum):
    """What goes wrong."""

    RELAY_KILLED = "relay killed (SIGKILL)"
    RELAY_STALLED = "relay stalled (SIGSTOP, SIGCONT)"
    RELAY_RESTARTED = "relay restarted (SIGTERM)"
    DATABASE_CRASHED = "database crashed (immediate)"
    SESSIONS_ENDED = "database sessions terminated"
    DATABASE_RESET = "link to the database reset"
    DATABASE_SILENT = "link to the database silent (no FIN)"
    DATABASE_SLOW = "link to the database slow"
    RECEIVER_RESET = "link to a receiver reset"
    RECEIVER_SILENT = "link to a receiver silent (no FIN)"
    RECEIVER_SLOW = "link to a receiver slow"

    @property
    def is_of_receiver(self) -> bool:
        """Whether the target is a receiver; else it is a relay, or all (the database)."""
        return self.name.startswith("RECEIVER")


@dataclass(frozen=True, order=True)
class Fault:
    """One fault: `at` seconds from the start, for `seconds` (0: a moment), on relay or receiver number `target`."""

    at: float
    kind: Kind
    target: int
    seconds: float


# How many of each are in a pack, and how long each may last in seconds. Stalls go past the lease of the relays.
_PACK = {
    Kind.RELAY_KILLED: (4, 0.0, 0.0),
    Kind.RELAY_STALLED: (3, 0.5, 9.0),
    Kind.RELAY_RESTARTED: (2, 0.0, 0.0),
    Kind.DATABASE_CRASHED: (1, 0.0, 4.0),
    Kind.SESSIONS_ENDED: (1, 0.0, 0.0),
    Kind.DATABASE_RESET: (3, 0.0, 0.0),
    Kind.DATABASE_SILENT: (2, 1.0, 8.0),
    Kind.DATABASE_SLOW: (2, 1.0, 4.0),
    Kind.RECEIVER_RESET: (4, 0.0, 0.0),
    Kind.RECEIVER_SILENT: (2, 0.5, 3.0),
    Kind.RECEIVER_SLOW: (2, 0.5, 3.0),
}


def fault_plan(seed: int, seconds: float, *, relays: int, receivers: int, gap: float = 1.5) -> list[Fault]:
    """Return the faults of a run of `seconds`, about one in `gap` seconds, in the order of their times.

    They are dealt from shuffled packs, so that a run of some packs has all kinds.
    """
    dice = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
    faults: list[Fault] = []
    pack: list[Kind] = []
    at = dice.uniform(0, gap)
    while at < seconds:
        if not pack:
            pack = [kind for kind, (count, _, _) in _PACK.items() for _ in range(count)]
            dice.shuffle(pack)
        kind = pack.pop()
        _, shortest, longest = _PACK[kind]
        target = dice.randrange(receivers if kind.is_of_receiver else relays)
        faults.append(Fault(round(at, 3), kind, target, round(dice.uniform(shortest, longest), 3)))
        at += dice.uniform(0.2, 1.8) * gap
    return faults
