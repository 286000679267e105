"""Finds sinks by name through the entry-point group `outbox.sinks`."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from outbox.errors import InvalidSettings

if TYPE_CHECKING:
    from relays.sinks import Sink

__all__ = ["GROUP", "load_sink"]

GROUP = "outbox.sinks"


def load_sink(name: str) -> type[Sink]:
    """Return the sink class registered as `name`.

    Raises:
        InvalidSettings: no installed package registers it; names those that are.
    """
    found = entry_points(group=GROUP, name=name)
    for entry_point in found:
        sink: type[Sink] = entry_point.load()
        return sink
    known = ", ".join(sorted({entry_point.name for entry_point in entry_points(group=GROUP)}))
    raise InvalidSettings(f"no sink {name!r} is installed here; known: {known}")
