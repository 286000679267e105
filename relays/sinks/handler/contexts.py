"""Runs a coroutine in a context of its own without a task of its own.

Handlers run one after another in the relay's worker tasks. Without this, a context variable set for one event
(a log field, a tenant, a span) would still be set for the next one; a task for each would cost ten times as much.
"""

from __future__ import annotations

import types
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

__all__ = ["in_own_context"]


@types.coroutine
def in_own_context(coroutine: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Await `coroutine` in a copy of the present context and return its value."""
    run = copy_context().run
    step, argument = coroutine.send, None
    while True:
        try:
            waited = run(step, argument)
        except StopIteration as done:
            return done.value
        try:
            argument = yield waited
            step = coroutine.send
        except GeneratorExit:
            run(coroutine.close)
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the coroutine's: above all our cancellation
            step, argument = coroutine.throw, error
