"""Relays that are started again whenever they end, as a service manager does, each through a network of its own."""

from __future__ import annotations

import re
import signal
import time
from dataclasses import dataclass, field
from typing import Self

from tests.processes import RelayProcess

__all__ = ["Fleet"]

OPTIONS = ("--lease", "5s", "--poll", "500ms", "--grace", "3s", "--concurrency", "16")
RETRY_SECONDS = 0.5
NO_DATABASE = 3
"""The exit code of a relay that finds no database when it starts."""


@dataclass(eq=False)
class _Post:
    """The place of one relay: the process there now, and what those before it printed."""

    dsn: str
    relay: RelayProcess | None = None
    is_wanted_dead: bool = False
    retry_at: float = 0.0
    outputs: list[str] = field(default_factory=list)


class Fleet:
    """One relay for each of `dsns`; `tend()` must be called often. `faults` are ends nobody asked for."""

    def __init__(self, dsns: list[str]) -> None:
        self._posts = [_Post(dsn) for dsn in dsns]
        self.faults: list[str] = []
        self.starts = 0

    @property
    def outputs(self) -> list[str]:
        """All that was printed."""
        current = [post.relay.output for post in self._posts if post.relay is not None]
        return [output for post in self._posts for output in post.outputs] + current

    def tend(self) -> None:
        """Start what is not running."""
        for post in self._posts:
            if post.relay is not None and post.relay.process.poll() is not None:
                self._bury(post)
            if post.relay is None and time.monotonic() >= post.retry_at:
                post.relay = RelayProcess(post.dsn, *OPTIONS, environment={"PYTHONFAULTHANDLER": "1"})
                self.starts += 1

    def kill(self, number: int) -> None:
        self._signal(number, signal.SIGKILL, is_end=True)

    def terminate(self, number: int) -> None:
        """Stop relay `number`, unless it was told already: a second signal would hurry it."""
        if not self._posts[number].is_wanted_dead:
            self._signal(number, signal.SIGTERM, is_end=True)

    def stall(self, number: int) -> None:
        self._signal(number, signal.SIGSTOP)

    def go_on(self, number: int) -> None:
        self._signal(number, signal.SIGCONT)

    def __enter__(self) -> Self:
        self.tend()
        return self

    def __exit__(self, *_) -> None:
        for post in self._posts:
            if post.relay is not None and post.relay.process.poll() is None:
                post.relay.kill()

    def stop(self) -> None:
        """Stop all in order: each must end by itself with exit code 0."""
        for number, post in enumerate(self._posts):
            if post.relay is not None:
                self.go_on(number)
                self.terminate(number)
        for post in self._posts:
            if post.relay is not None:
                post.relay.ended(60)
                self._bury(post)

    def _signal(self, number: int, which: int, *, is_end: bool = False) -> None:
        post = self._posts[number]
        if post.relay is not None and post.relay.process.poll() is None:
            post.is_wanted_dead = post.is_wanted_dead or is_end
            post.relay.signal(which)

    def _bury(self, post: _Post) -> None:
        relay, post.relay = post.relay, None
        code = relay.ended()
        if code == NO_DATABASE and not _has_started(relay):
            post.retry_at = time.monotonic() + RETRY_SECONDS
        elif not post.is_wanted_dead or code not in {0, -signal.SIGKILL, -signal.SIGTERM}:
            self.faults.append(f"a relay ended by itself with {code}: {relay.output[-2000:]}")
        post.outputs.append(relay.output)
        post.is_wanted_dead = False


def _has_started(relay: RelayProcess) -> bool:
    return re.search(r"relay \d+ started", relay.output) is not None
