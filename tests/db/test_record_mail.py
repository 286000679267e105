"""A mail that could smuggle in a header or a recipient is refused when it is recorded (E05)."""

from __future__ import annotations

import json

import psycopg
import pytest

from outbox import record_event
from outbox.errors import InvalidEvent
from outbox.mail import check_mail
from tests.queues import add_destination, count, record

GOOD = {
    "to": ["Ada <ada@example.com>"],
    "subject": "a\\nb",
    "text": "two\nlines\t\r\n",
    "html": "<p>\n",
    "headers": {"X": "1"},
}
ATTACHED = {"filename": "a.pdf", "content_type": "application/pdf", "content": "YQ\n=="}
BAD = [
    ("subject", {"subject": "a\r\nBcc: evil@example.com"}),
    ("subject", {"subject": "a\u000bb"}),
    ("to", {"to": "a@b.example>\r\nRCPT TO:<evil@x"}),
    ("cc", {"cc": [{"address": "a@b.example", "name": "x\ny"}]}),
    ("from", {"from": "a@b.example\u007f"}),
    ("headers", {"headers": {"X": "1\r\nX-Evil: 1"}}),
    ("headers", {"headers": {"X\r\nX-Evil": "1"}}),
    ("attachments", {"attachments": [{**ATTACHED, "filename": "a\n.pdf"}]}),
]  # fmt: skip


@pytest.fixture
def connection(database):
    with database.connect() as connection:
        yield connection


@pytest.mark.parametrize(("field", "payload"), BAD)
def test_e05_a_mail_with_a_line_break_in_a_header_is_refused_when_recorded(connection, field, payload):
    add_destination(connection, "mail", sink="email")
    with pytest.raises(psycopg.Error, match=rf"payload: \$\.{field}") as caught:
        record(connection, payload={**GOOD, **payload})
    assert caught.value.sqlstate == "OB003"
    assert "evil" not in str(caught.value)
    with pytest.raises(psycopg.Error, match=rf"\$\.{field}"):
        connection.execute(
            "select outbox.record_events(%s)", [json.dumps([{"type": "a", "payload": {**GOOD, **payload}}])]
        )
    assert count(connection, "events") == 0
    with pytest.raises(InvalidEvent, match=rf"\$\.{field}"):
        check_mail({**GOOD, **payload})


def test_line_breaks_in_texts_and_files_are_no_headers(connection):
    add_destination(connection, "mail", sink="email")
    record(connection, payload={**GOOD, "attachments": [ATTACHED]})
    assert count(connection, "deliveries") == 1


def test_events_for_other_sinks_may_hold_anything(connection):
    add_destination(connection, "shop", sink="webhook")
    record(connection, payload={"subject": "a\r\nb", "to": "x\ny"})
    assert count(connection, "deliveries") == 1


def test_the_python_helper_raises_its_own_error(connection):
    add_destination(connection, "mail", sink="email")
    with connection.transaction(), pytest.raises(InvalidEvent, match=r"\$\.subject"), connection.transaction():
        record_event(connection, "mail.receipt", {**GOOD, "subject": "a\nb"})
