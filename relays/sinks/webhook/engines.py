"""The HTTP engines a destination can choose from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outbox.errors import ReferenceMissing

if TYPE_CHECKING:
    from relays.http.engine import Engine

__all__ = ["open_engine"]


def open_engine(name: str) -> Engine:
    """Return a new engine, `aiohttp` or `httpx`.

    Raises:
        ReferenceMissing: its library is not installed; names the extra.
    """
    if name == "aiohttp":
        from relays.http.aiohttp_engine import AiohttpEngine

        return AiohttpEngine()
    try:
        from relays.http.httpx_engine import HttpxEngine
    except ImportError:
        raise ReferenceMissing("engine: httpx is not installed; pip install 'outbox-relay[httpx]'") from None
    return HttpxEngine()
