"""The HTTP engines a destination can choose from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outbox.errors import ReferenceMissing

if TYPE_CHECKING:
    from relays.http.engine import Engine
    from relays.http.resolver import Resolver

__all__ = ["open_engine"]


def open_engine(name: str, resolver: Resolver | None = None) -> Engine:
    """Return a new engine, `aiohttp` or `httpx`, that looks names up with `resolver`.

    Raises:
        ReferenceMissing: its library is not installed; names the extra.
    """
    if name == "aiohttp":
        from relays.http.aiohttp_engine import AiohttpEngine

        return AiohttpEngine(resolver)
    try:
        from relays.http.httpx_engine import HttpxEngine
    except ImportError:
        raise ReferenceMissing("engine: httpx is not installed; pip install 'outbox-relay[httpx]'") from None
    return HttpxEngine(resolver)
