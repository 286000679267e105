"""The other side of a sink under test."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Behaviour", "Receiver", "Sent"]


class Behaviour(StrEnum):
    """What the other side does."""

    ACCEPTS = "accepts"
    REFUSES = "refuses"
    HANGS = "hangs"
    AWAY = "away"


class Sent(NamedTuple):
    """One request as the other side saw it: the identity it can deduplicate by, and everything that may not change."""

    identity: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Receiver:
    """The other side, ready: the settings that lead to it, and what it has seen so far, refused requests too."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    sent: Callable[[], list[Sent]] = list
