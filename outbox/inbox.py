"""For receivers on PostgreSQL: handle each event once, in the transaction of your own rows.

An outbox delivers at least once. A receiver that notes the event's id in the same transaction as its work has an
effect exactly once: a second delivery finds the note and does nothing, a rolled-back one leaves no note.
"""

from __future__ import annotations

from typing import Any, Final

from outbox.connections import adapt, adapt_async
from outbox.errors import TransactionRequired, UsageError
from outbox.statements import Statement

__all__ = ["CREATE_TABLE", "aonce", "once"]

CREATE_TABLE: Final = """\
create table if not exists outbox_inbox (
    receiver text not null default '',
    event_id text not null,
    received_at timestamptz not null default clock_timestamp(),
    constraint outbox_inbox_pkey primary key (receiver, event_id)
)"""
"""The table, in your own database and schema: run it in a migration of yours.

Rows older than the sender keeps retrying (30 days are plenty) may go:
`delete from outbox_inbox where received_at < now() - interval '30 days'`.
"""

_NOTE: Final = """\
insert into outbox_inbox (receiver, event_id) values ({}::text, {}::text)
on conflict do nothing returning event_id::text"""
_LONGEST_ID = 256


def once(connection: Any, event_id: str, *, receiver: str = "") -> bool:
    """Note `event_id` in the running transaction; return whether it is new, so that you should handle it.

    `connection` is what `record_event` takes. While another transaction holds a note of the same event, this
    waits for its end. Several receivers in one database each need a `receiver` name, or the first would take
    the events of all.

    Raises:
        TransactionRequired: no transaction is open, so the note would stay when the work fails.
        UsageError: `event_id` is empty or longer than 256 characters.
    """
    face = adapt(connection)
    _check(event_id, is_atomic=face.is_atomic())
    return bool(face.run(Statement(_NOTE, (receiver, event_id))))


async def aonce(connection: Any, event_id: str, *, receiver: str = "") -> bool:
    """Do the same as `once` on an asyncio connection."""
    face = await adapt_async(connection)
    _check(event_id, is_atomic=face.is_atomic())
    return bool(await face.run(Statement(_NOTE, (receiver, event_id))))


def _check(event_id: str, *, is_atomic: bool) -> None:
    if not event_id or len(event_id) > _LONGEST_ID:
        raise UsageError(f"event_id: is empty or longer than {_LONGEST_ID} characters; pass what verify() returned")
    if not is_atomic:
        raise TransactionRequired(
            "no transaction is open, so the event would count as handled even if the work fails; open one first"
        )
