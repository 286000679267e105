"""The explorer itself: it visits everything, finds the shortest trace, and sees dead ends."""

from __future__ import annotations

from dataclasses import dataclass

from tests.model.explorer import explore


@dataclass(frozen=True)
class Counters:
    """Two counters up to `most`, advanced by one or reset; a dead end when they are at `trap`."""

    most: int = 3
    forbidden: tuple[int, int] | None = None
    trap: tuple[int, int] | None = None

    def start(self):
        return 0, 0

    def steps(self, state):
        left, right = state
        if state == self.trap:
            return
        if left < self.most:
            yield "left", (left + 1, right)
        if right < self.most:
            yield "right", (left, right + 1)
        yield "reset", (0, 0)

    def fault(self, state):
        return "forbidden" if state == self.forbidden else None

    def is_over(self, state):
        return state == (self.most, self.most)


def test_every_state_and_step_is_visited_once():
    found = explore(Counters(most=3))
    assert (found.states, found.steps, found.fault) == (16, 16 + 12 + 12, None)


def test_the_trace_to_a_fault_is_a_shortest_one():
    found = explore(Counters(forbidden=(2, 1)))
    assert (found.fault, len(found.trace)) == ("forbidden", 3)
    assert sorted(found.trace) == ["left", "left", "right"]
    assert str(found).endswith("=> forbidden")


def test_a_state_without_a_way_to_the_end_is_found():
    found = explore(Counters(trap=(0, 2)))
    assert found.fault == "stuck: from here nothing leads to the end"
    assert found.trace == ("right", "right")
