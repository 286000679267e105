"""What a relay tells its sinks when it opens them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RelayContext"]


@dataclass(frozen=True, slots=True)
class RelayContext:
    """The surroundings of a sink: the database it may use, the relay it runs in, the `--app` modules.

    `concurrency` is how many attempts may run at once in this relay, over all destinations. `is_pooled` says that
    `dsn` goes through a transaction pooler: nothing may be prepared there, and no session setting lasts.
    """

    dsn: str
    relay_id: int
    concurrency: int
    app: tuple[str, ...] = ()
    is_pooled: bool = False
