"""A handler that does nothing, for benchmarks of everything around it."""

from __future__ import annotations

import relays


@relays.handler("*")
async def ignore(event) -> None:
    """Take any event and do nothing."""
