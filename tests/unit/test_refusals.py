"""What drivers raise becomes this package's words by SQLSTATE, never by the text of a message."""

from __future__ import annotations

import pytest

from outbox.errors import IdempotencyConflict, InvalidEvent
from outbox.refusals import Refusals


class DriverError(Exception):
    def __init__(self, message, sqlstate):
        super().__init__(message)
        self.sqlstate = sqlstate


class WrappedError(Exception):
    """As SQLAlchemy wraps: the driver's own error is `orig`."""

    def __init__(self, orig):
        super().__init__("wrapped")
        self.orig = orig


def test_a_conflict_and_other_refusals_are_told_apart():
    with pytest.raises(IdempotencyConflict, match="taken"), Refusals(lambda: "app"):
        raise DriverError("taken", "OB001")
    with pytest.raises(InvalidEvent, match="too large"), Refusals(lambda: "app"):
        raise DriverError("too large", "OB004")


def test_wrapped_and_chained_errors_are_looked_into():
    with pytest.raises(InvalidEvent, match="too large"), Refusals(lambda: "app"):
        raise WrappedError(DriverError("too large", "OB004"))
    with pytest.raises(InvalidEvent, match="too large"), Refusals(lambda: "app"):
        raise ValueError("chained") from DriverError("too large", "OB004")


def test_a_message_in_any_language_gets_the_remedy():
    error = DriverError("keine Berechtigung für Funktion record_event", "42501")
    with pytest.raises(DriverError) as passed, Refusals(lambda: "app"):
        raise error
    assert passed.value is error
    assert error.__notes__ == ["role app may not record events; run: GRANT outbox_writer TO app"]


@pytest.mark.parametrize("error", [DriverError("no", "40001"), DriverError("no", None), ValueError("no"), SystemExit()])
def test_everything_else_passes_through_untouched(error):
    with pytest.raises(type(error)) as passed, Refusals(lambda: "app"):
        raise error
    assert passed.value is error
    assert not hasattr(error, "__notes__")
