"""The slots of a relay: what was claimed waits here for a moment, then each delivery is tried once.

Workers wake each other in a chain: a worker that starts an attempt first makes sure another one is coming if more is
waiting. An attempt that never waits for anything (a quick handler) is then followed by the next in the same worker,
and the loop sees one wake-up per *suspended* attempt, not one per attempt.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outbox.model import Certainty
from relays.deadlines import Deadlines
from relays.results import Delivered, Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from relays.deliveries import Delivery
    from relays.results import Result
    from relays.targets import Target

__all__ = ["Run", "Slots"]

log = logging.getLogger("relays.slots")

CANCEL_SECONDS = 2.0
"""How long a cancelled attempt may take to let go."""

STARTS_WITHOUT_PAUSE = 200
"""Attempts one worker starts in a row before it lets the event loop look at its sockets."""


@dataclass(slots=True, eq=False)
class Run:
    """Deliveries sent one by one: a single one, or consecutive ones of one key (promise key-order)."""

    target: Target
    deliveries: list[Delivery]


def _broken(delivery: Delivery, error: BaseException) -> Refused:
    name = type(error).__name__
    log.error("sink of destination %s raised %s", delivery.destination.name, name, exc_info=error)
    return Refused("sink_error", f"the sink raised {name}", certainty=Certainty.AMBIGUOUS)


def _overdue(delivery: Delivery) -> Refused:
    return Refused("timeout", f"no answer within {delivery.deadline_seconds:g} s", certainty=Certainty.AMBIGUOUS)


class Slots:
    """At most `size` runs at a time; finished attempts go to `finished(target, delivery, result, started, ended)`.

    Times are monotonic seconds. `given_back(run, rest)` gets what a run did not start because an earlier delivery
    of its key was not delivered. `freed()` is called whenever a slot becomes free.
    """

    def __init__(
        self,
        size: int,
        finished: Callable[[Target, Delivery, Result, float, float], None],
        given_back: Callable[[Target, Sequence[Delivery]], None],
        freed: Callable[[], None],
    ) -> None:
        self.size = size
        self._finished = finished
        self._given_back = given_back
        self._freed = freed
        self._waiting: deque[Run] = deque()
        self._idle: list[asyncio.Event] = []
        self._workers: set[asyncio.Task[None]] = set()
        self._busy = 0
        self._is_one_called = False
        self._is_stopped = False
        self._running: dict[asyncio.Task[None], tuple[Target, Delivery]] = {}
        self._deadlines = Deadlines()

    @property
    def free(self) -> int:
        """How many more runs may be started now."""
        return self.size - self._busy

    @property
    def in_flight(self) -> int:
        """How many runs are under way."""
        return self._busy

    def start(self, run: Run) -> None:
        """Take a run; the caller has checked that a slot is free."""
        self._busy += 1
        run.target.in_flight += 1
        self._waiting.append(run)
        self._call_a_worker()

    def _call_a_worker(self) -> None:
        """Make sure one worker is on its way; it calls the next one itself."""
        if self._is_one_called:
            return
        if self._idle:
            self._idle.pop().set()
        elif len(self._workers) < self.size:
            self._workers.add(asyncio.get_running_loop().create_task(self._work()))
        else:
            return  # all are at work, and look here before they rest
        self._is_one_called = True

    async def _work(self) -> None:
        worker = asyncio.current_task()
        called = asyncio.Event()
        while worker is not None and not self._is_stopped:
            self._is_one_called = False
            in_a_row = 0
            while self._waiting:
                run = self._waiting.popleft()
                if self._waiting:
                    self._call_a_worker()
                await self._send(worker, run)
                in_a_row += 1
                if in_a_row % STARTS_WITHOUT_PAUSE == 0:
                    await asyncio.sleep(0)
            called.clear()
            self._idle.append(called)
            await called.wait()

    async def _send(self, worker: asyncio.Task[None], run: Run) -> None:
        """Send a run one by one, up to the first delivery that is not delivered."""
        target = run.target
        begun = 0
        try:
            for delivery in run.deliveries:
                begun += 1
                started = time.monotonic()
                self._running[worker] = (target, delivery)
                self._deadlines.begin(worker, started, delivery.deadline_seconds)
                result = await self._attempt(worker, target, delivery)
                del self._running[worker]
                self._finished(target, delivery, result, started, time.monotonic())
                if not isinstance(result, Delivered) or self._is_stopped:
                    break
        finally:
            self._busy -= 1
            target.in_flight -= 1
            if len(run.deliveries) > 1:
                self._given_back(target, run.deliveries[begun:])
            self._freed()

    async def _attempt(self, worker: asyncio.Task[None], target: Target, delivery: Delivery) -> Result:
        """Try `delivery` once, within its deadline, and return how it ended, whatever the sink raises.

        This is one of the two places that catch everything: a sink's bug is an outcome of its delivery, never the
        end of the relay. Only the cancellation of `stop()` passes through.
        """
        try:
            result = await target.sink.send(delivery)
        except asyncio.CancelledError as error:
            if self._deadlines.end(worker):
                return _overdue(delivery)
            if worker.cancelling():
                raise
            return _broken(delivery, error)
        except BaseException as error:  # noqa: BLE001 - see the docstring
            return _overdue(delivery) if self._deadlines.end(worker) else _broken(delivery, error)
        self._deadlines.end(worker)
        return result

    async def stop(self) -> list[tuple[Target, Delivery, bool]]:
        """Cancel everything and return the deliveries given back, each with whether its attempt had begun."""
        self._is_stopped = True
        waiting, self._waiting = list(self._waiting), deque()
        for worker in self._workers:
            worker.cancel()
        if self._workers:
            await asyncio.wait(self._workers, timeout=CANCEL_SECONDS)
        begun = [(target, delivery, True) for target, delivery in self._running.values()]
        untouched = [(run.target, delivery, False) for run in waiting for delivery in run.deliveries]
        return begun + untouched
