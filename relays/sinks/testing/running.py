"""Runs a coroutine of a test so that a sink that blocks fails it instead of hanging it."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["expect", "run"]

LIMIT_SECONDS = 60.0

T = TypeVar("T")


def expect(is_so: bool, message: str) -> None:
    """Fail the test with `message` unless `is_so`. Not `assert`, which needs pytest's rewriting to say anything.

    Raises:
        AssertionError: it is not so.
    """
    if not is_so:
        raise AssertionError(message)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the value of `coroutine`, run in an event loop of its own.

    Raises:
        AssertionError: it blocks the event loop, or does not come to an end.
    """
    values: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            values.append(asyncio.run(coroutine))
        except BaseException as error:  # noqa: BLE001 - raised again below, in the test's own thread
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(LIMIT_SECONDS)
    expect(not thread.is_alive(), f"not over within {LIMIT_SECONDS:g} s: the sink blocks the event loop, or waits")
    if errors:
        raise errors[0]
    return values[0]
