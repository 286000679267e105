"""Which deliveries a bulk command is about. One condition at least is required: nobody redrives all by mistake."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from outbox.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

__all__ = ["Selection", "select_deliveries"]


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions that all hold; None does not matter. Times are those of death, or of delivery for a replay.

    `is_removed` is about the destination: a name may have been given anew since.
    """

    destination: str | None = None
    event_type: str | None = None
    event_ids: tuple[UUID, ...] | None = None
    reason: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    is_removed: bool | None = None

    @property
    def is_of_destination_alone(self) -> bool:
        """Whether it is everything of one destination, or of a removed one."""
        return self.destination is not None and replace(self, is_removed=None) == Selection(self.destination)

    def parameters(self) -> dict[str, Any]:
        """Return the conditions as query parameters; a type pattern `order.*` becomes a prefix."""
        values = asdict(self)
        pattern = values.pop("event_type")
        is_prefix = pattern is not None and pattern.endswith("*")
        values["event_type"] = None if is_prefix else pattern
        values["type_prefix"] = pattern[:-1] if is_prefix and pattern is not None else None
        values["event_ids"] = None if self.event_ids is None else list(self.event_ids)
        return values


def select_deliveries(
    *,
    destination: str | None,
    event_type: str | None,
    events: Sequence[str],
    reason: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Selection:
    """Return the selection.

    Raises:
        UsageError: no condition is given, an event id is none, or a time has no offset.
    """
    if not (destination or event_type or events or reason or since or until):
        raise UsageError("give a filter: --destination, --type, --event, --reason, --since or --until")
    for name, moment in (("--since", since), ("--until", until)):
        if moment is not None and moment.tzinfo is None:
            raise UsageError(f"{name} {moment} has no offset; write 2026-12-01T09:30:00+00:00")
    ids = []
    for event in events:
        try:
            ids.append(UUID(event))
        except ValueError:
            raise UsageError(f"--event {event!r} is not an event id; it is a uuid") from None
    return Selection(destination, event_type, tuple(ids) or None, reason, since, until)
