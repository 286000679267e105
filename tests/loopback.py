"""A server of the tests in a thread of its own, so that tests may be sync or async."""

from __future__ import annotations

import asyncio
import threading
from typing import Self


class LoopbackServer:
    """Listens on loopback while in its `with` block; `_listen` says how, and `_end` breaks off what is open."""

    start_seconds = 60.0
    act_seconds = 60.0

    def __init__(self, port: int = 0):
        self.port = port
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(self.start_seconds)
        return self

    def __exit__(self, *_) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def _listen(self) -> asyncio.Server:
        """Return the listening server; its port is 0 for any free one, or `self.port`."""
        raise NotImplementedError

    def _end(self) -> None:
        """Break off what is still open."""

    def _do(self, action) -> None:
        """Run `action` in the server's own thread, and come back when it is done."""
        done = threading.Event()

        def act() -> None:
            action()
            done.set()

        self._loop.call_soon_threadsafe(act)
        assert done.wait(self.act_seconds)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await self._listen()
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        self._end()
