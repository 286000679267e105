"""One run of a bulk command: shows first, asks, then works with a progress bar."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import Progress

from outbox.cli.asking import ask
from outbox.cli.output import print_json, print_table, say
from outbox.errors import BulkStopped, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["SAMPLES", "Run", "progress"]

SAMPLES = 5


@dataclass(slots=True)
class Run:
    """One run of a bulk command, told to people as it goes and to machines in one document at the end."""

    verb: str
    as_json: bool = False
    yes: bool = False
    dry_run: bool = False
    limit: int | None = None
    again: str = "run it again to go on"
    matched: int = 0
    samples: list[dict[str, Any]] = field(default_factory=list)
    done: int = 0

    @property
    def wanted(self) -> int:
        """How many are to be taken."""
        return min(self.matched, self.limit or self.matched)

    def warn(self, obstacles: Sequence[str], canary: int) -> None:
        """Tell what keeps the deliveries from being tried.

        Raises:
            UsageError: a canary is asked for, whose outcomes would be waited for in vain.
        """
        if obstacles and canary and not self.dry_run:
            raise UsageError(f"--canary waits for outcomes, and there will be none: {obstacles[0]}")
        for obstacle in obstacles:
            say(f"not tried for now: {obstacle}")

    def confirm(self, matched: int, samples: Sequence[dict[str, Any]]) -> None:
        """Show how many and which, and ask; without a terminal `--yes` is required.

        Raises:
            UsageError: there is nobody to ask and `--yes` is not given.
            typer.Exit: nothing matches, it is a dry run, or the answer was no.
        """
        self.matched, self.samples = matched, list(samples)
        if not matched:
            self._end(f"nothing to {self.verb}: no delivery matches")
            raise typer.Exit(0)
        self._show()
        if self.dry_run:
            self._end(f"{self.wanted:,} would be taken; nothing was changed")
            raise typer.Exit(0)
        ask(f"{self.verb} {self.wanted:,} deliveries", yes=self.yes)

    def carry_out(self, counts: Iterable[int], done: str) -> None:
        """Go through growing counts; then say `done`, with the last one in place of `{}`.

        Raises:
            BulkStopped: it stopped by itself.
            typer.Exit: it was interrupted; what was done stays done.
        """
        try:
            self.done = progress(f"{self.verb}: ", self._counted(counts), self.wanted)
        except KeyboardInterrupt:
            self._end(f"interrupted after {self.done:,} of {self.wanted:,}; {self.again}", stopped="interrupted")
            raise typer.Exit(1) from None
        except BulkStopped as error:
            if self.as_json:
                self._end("", stopped=str(error))
            raise
        self._end(done.format(f"{self.done:,}"))

    def _counted(self, counts: Iterable[int]) -> Iterable[int]:
        for self.done in counts:
            yield self.done

    def _show(self) -> None:
        if self.as_json:
            return
        which = "all" if self.matched <= SAMPLES else f"the first {SAMPLES}"
        say(f"{self.matched:,} deliveries match; {which} of them:")
        print_table(list(self.samples[0]), [list(sample.values()) for sample in self.samples])

    def _end(self, message: str, *, stopped: str | None = None) -> None:
        if not self.as_json:
            say(message)
            return
        print_json(
            {
                "matched": self.matched,
                "samples": self.samples,
                "dry_run": self.dry_run,
                "done": self.done,
                "stopped": stopped,
            }
        )


def progress(verb: str, counts: Iterable[int], total: int | None) -> int:
    """Go through growing counts with a progress bar on a terminal, and return the last one."""
    done = 0
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as bar:
        shown = bar.add_task(verb, total=total)
        for done in counts:
            bar.update(shown, completed=done, description=f"{verb} {done:,}")
    return done
