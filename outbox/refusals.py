"""What the database says when it does not record, in this package's words. No I/O here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from outbox.errors import IdempotencyConflict, InvalidEvent, OutboxError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["Refusals"]

_CLASS: Final = "OB"  # of the SQLSTATEs that sql/migrations/0002_create_recording.sql raises
_CONFLICT: Final = "OB001"
_REMEDIES: Final = {
    "42501": "role {role} may not record events; run: GRANT outbox_writer TO {role}",
    "3F000": "the schema outbox is missing; run: outbox migrate",
    "42883": "outbox.record_event is missing, or older than this code; run: outbox migrate",
}


class Refusals:
    """A context in which refusals of class OB become `InvalidEvent` or `IdempotencyConflict`.

    Everything else passes through as the driver raised it; where recording itself is not set up, with a note
    that says the remedy, for the role that `role()` names.
    """

    def __init__(self, role: Callable[[], str | None]) -> None:
        self._role = role

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            return
        sqlstate = _sqlstate(error)
        if sqlstate.startswith(_CLASS):
            raise _refusal(error, sqlstate) from error
        if sqlstate in _REMEDIES:
            error.add_note(_REMEDIES[sqlstate].format(role=self._role() or "of this session"))


def _refusal(error: BaseException, sqlstate: str) -> OutboxError:
    message = _message(error)
    return IdempotencyConflict(message) if sqlstate == _CONFLICT else InvalidEvent(message)


def _driver_error(error: BaseException) -> Any:
    """Return the error of the driver itself, under the wrappings of SQLAlchemy (`orig`) and Django (cause)."""
    inner = getattr(error, "orig", None) or error
    while getattr(inner, "sqlstate", None) is None and inner.__cause__ is not None:
        inner = inner.__cause__
    return inner


def _sqlstate(error: BaseException) -> str:
    return str(getattr(_driver_error(error), "sqlstate", None) or "")


def _message(error: BaseException) -> str:
    inner = _driver_error(error)
    diagnosis = getattr(inner, "diag", None)
    return str(getattr(diagnosis, "message_primary", None) or getattr(inner, "message", None) or inner)
