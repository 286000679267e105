"""Explores every interleaving of a small model, breadth first, and shows the shortest way to a fault.

A model is a set of frozen values (states) and the steps between them. Two things are looked for: a state that breaks
a safety property, and a state from which the model cannot come to its end any more (a deadlock, or a delivery that is
skipped for ever).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

State = TypeVar("State")


class Model(Protocol[State]):
    """What can be explored. States compare and hash by value; there must be finitely many."""

    def start(self) -> State:
        """Return the state everything begins in."""

    def steps(self, state: State) -> Iterable[tuple[str, State]]:
        """Yield what each actor could do next: what it is called, and the state after it."""

    def fault(self, state: State) -> str | None:
        """Return which property the state breaks, or None."""

    def is_over(self, state: State) -> bool:
        """Tell whether everything is finished; such a state must stay within reach."""


@dataclass(frozen=True)
class Explored:
    """What was found: how many states and steps there are, and the first fault with the steps that lead to it."""

    states: int
    steps: int
    fault: str | None = None
    trace: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the fault below the numbered steps that lead to it."""
        steps = [f"{number:4} {step}" for number, step in enumerate(self.trace, 1)]
        return "\n".join([*steps, f"     => {self.fault or 'holds'}"])


@dataclass
class _Seen:
    """The states found so far, by number, with the step each was first reached by, and all steps backwards."""

    numbers: dict = field(default_factory=dict)
    first_step: list = field(default_factory=list)
    before: list = field(default_factory=list)

    def add(self, state, label: str, origin: int | None) -> bool:
        """Note a step to `state`; return whether the state is new."""
        number = self.numbers.get(state)
        if is_new := number is None:
            number = self.numbers[state] = len(self.numbers)
            self.first_step.append((label, origin))
            self.before.append([])
        if origin is not None:
            self.before[number].append(origin)
        return is_new

    def trace(self, number: int | None) -> tuple[str, ...]:
        """Return the steps from the start to the state of that number."""
        labels = []
        while number is not None:
            label, number = self.first_step[number]
            labels.append(label)
        return tuple(reversed(labels[:-1]))

    @property
    def steps(self) -> int:
        return sum(map(len, self.before))


def explore(model: Model) -> Explored:
    """Visit every state of `model`, or as many as come before the first fault."""
    seen = _Seen()
    waiting = deque([model.start()])
    seen.add(waiting[0], "start", None)
    while waiting:
        state = waiting.popleft()
        number = seen.numbers[state]
        if fault := model.fault(state):
            return Explored(len(seen.numbers), seen.steps, fault, seen.trace(number))
        for label, following in model.steps(state):
            if seen.add(following, label, number):
                waiting.append(following)
    return _without_way_out(model, seen)


def _without_way_out(model: Model, seen: _Seen) -> Explored:
    """Look for the first state from which no finished one can be reached."""
    over = [number for state, number in seen.numbers.items() if model.is_over(state)]
    reaching = set(over)
    while over:
        for origin in seen.before[over.pop()]:
            if origin not in reaching:
                reaching.add(origin)
                over.append(origin)
    stuck = next((number for number in range(len(seen.numbers)) if number not in reaching), None)
    fault = None if stuck is None else "stuck: from here nothing leads to the end"
    return Explored(len(seen.numbers), seen.steps, fault, seen.trace(stuck))
