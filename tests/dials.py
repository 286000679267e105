"""Every address this process tries to connect to, as the interpreter itself reports it."""

from __future__ import annotations

import sys
from contextlib import contextmanager

_dials: list | None = None


def _note(event: str, arguments: tuple) -> None:
    if _dials is not None and event == "socket.connect" and isinstance(arguments[1], tuple):
        _dials.append(arguments[1][:2])


sys.addaudithook(_note)  # for ever: an audit hook cannot be removed


@contextmanager
def watched_dials():
    """Collect (address, port) of every connect within the block, also of those that fail."""
    global _dials  # noqa: PLW0603 - the hook is global
    _dials = []
    try:
        yield _dials
    finally:
        _dials = None
