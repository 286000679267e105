"""Finds sinks by name through the entry-point group `outbox.sinks`, so that nothing here imports one."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from outbox.errors import InvalidSettings

__all__ = ["GROUP", "load_sink", "sink_names"]

GROUP = "outbox.sinks"


def sink_names() -> list[str]:
    """Return the names of all sinks that installed packages register."""
    return sorted({entry_point.name for entry_point in entry_points(group=GROUP)})


def load_sink(name: str) -> type[Any]:
    """Return the sink class registered as `name`.

    Raises:
        InvalidSettings: no installed package registers it; names those that are.
    """
    for entry_point in entry_points(group=GROUP, name=name):
        sink: type[Any] = entry_point.load()
        return sink
    raise InvalidSettings(f"no sink {name!r} is installed here; known: {', '.join(sink_names())}")
