"""Every exception this project raises.

    OutboxError
    ├── UsageError                 wrong arguments or settings: fix the call
    │   ├── InvalidEvent           an event that cannot be recorded; names the argument or JSON path
    │   ├── InvalidSettings        a destination, policy or relay setting that makes no sense
    │   │   └── ReferenceMissing   what a setting refers to (env:, file:, a certificate) is not on this machine
    │   ├── TransactionRequired    recording outside a transaction would be atomic with nothing
    │   └── IdempotencyConflict    the same idempotency key with other content (SQLSTATE OB001)
    ├── InvalidSignature           a received webhook was not signed with these secrets, or not lately
    ├── DatabaseUnreachable        no connection to PostgreSQL
    ├── SchemaMismatch             the schema is missing, older or newer than this code
    ├── RestoredCopy               the database is a copy of the one the outbox was installed in
    ├── DestinationChanged         somebody else changed the destination meanwhile: look and run it again
    └── BulkStopped                a bulk command stopped by itself: too much failed again

psycopg's own errors pass through recording untouched: the transaction is the caller's (caller-commits).
Messages are lower case and name the offending value (never a secret or a payload), its unit and the remedy.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "BulkStopped",
    "DatabaseUnreachable",
    "DestinationChanged",
    "IdempotencyConflict",
    "InvalidEvent",
    "InvalidSettings",
    "InvalidSignature",
    "OutboxError",
    "ReferenceMissing",
    "RestoredCopy",
    "SchemaMismatch",
    "TransactionRequired",
    "UsageError",
]


class OutboxError(Exception):
    """Base of all errors of this project; `exit_code` is what the commands return for it."""

    exit_code: ClassVar[int] = 1


class UsageError(OutboxError):
    """Wrong arguments or settings: the caller can fix the call."""

    exit_code = 2


class InvalidEvent(UsageError):
    """An event that cannot be recorded; names the argument or JSON path.

    With a driver's error as its cause the database refused it, which aborts the transaction; without, nothing was sent.
    """


class InvalidSettings(UsageError):
    """A setting of a destination, policy or relay that makes no sense."""


class ReferenceMissing(InvalidSettings):
    """What a setting refers to (`env:NAME`, `file:PATH`, a certificate) is not to be had on this machine."""


class TransactionRequired(UsageError):
    """No transaction is open, so the event would be atomic with nothing."""


class IdempotencyConflict(UsageError):
    """The idempotency key is taken by an event with other content."""


class InvalidSignature(OutboxError):
    """A received webhook carries no valid signature, or one that is too old; answer it with 401."""


class DatabaseUnreachable(OutboxError):
    """PostgreSQL cannot be reached with the given DSN."""

    exit_code = 3


class SchemaMismatch(OutboxError):
    """The schema `outbox` is missing, or this code cannot work with its version."""

    exit_code = 4


class RestoredCopy(OutboxError):
    """The database is a copy (restored, cloned) of the one the outbox was installed in: nothing is sent from it."""


class DestinationChanged(OutboxError):
    """Somebody else changed the destination between reading and writing it; nothing was changed."""


class BulkStopped(OutboxError):
    """A bulk command stopped by itself: too much of what it set going failed again."""
