"""Whatever bytes a server answers in whatever step, there is an outcome, and the next mail goes through."""

from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from relays.results import Delivered, Refused
from relays.sinks.email import EmailSink
from tests.mail_deliveries import delivery, destination
from tests.mail_server import MailServer

CODES = st.sampled_from(
    [b"199", b"200", b"220", b"250", b"251", b"334", b"354", b"421", b"450", b"452", b"500", b"552"]
)
LINES = st.builds(
    lambda code, separator, text, end: code + separator + text + end,
    CODES | st.binary(max_size=4),
    st.sampled_from([b" ", b"-", b"", b"\t"]),
    st.sampled_from([b"", b"Ok", b"2.0.0 Ok", b"4.2.1 busy", b"5.1.1 gone", b"5.", b"\xff\xfe", b"\0"])
    | st.binary(max_size=30),
    st.sampled_from([b"\r\n", b"\n", b"\r", b""]),
)
ANSWERS = st.lists(LINES, max_size=4).map(b"".join)
ACCEPTED = re.compile(rb"(?:[^\n]{3}-[^\n]*\n)*2\d\d(?!-)")
"""The code of the last line counts where a server gives lines of one answer several; a missing space is forgiven."""


def ended_after(data: bytes):
    """Answer with these bytes and close, so that no test waits for a line that does not come."""

    async def play(session) -> None:
        session._writer.write(data)
        await session._writer.drain()
        session.transport.close()
        await asyncio.Event().wait()

    play.stores = False
    return play


@pytest.mark.parametrize("step", ["greeting", "EHLO", "MAIL", "RCPT", "DATA", "FINAL"])
@given(answer=ANSWERS)
@example(answer=b"220 mail.test\r\n")  # and gone, before the connection could be looked at
@settings(max_examples=60, deadline=None)
def test_any_answer_has_an_outcome_and_the_next_mail_goes_through(step, answer):
    with MailServer(**{step: [ended_after(answer)]}) as server:
        to = destination(server)

        async def two():
            sink = EmailSink()
            try:
                return await sink.send(delivery(to, seconds=5)), await sink.send(delivery(to, seconds=5))
            finally:
                await sink.close()

        first, second = asyncio.run(two())
    assert isinstance(first, Refused | Delivered)
    if isinstance(first, Delivered):
        assert step == "FINAL"
        assert ACCEPTED.match(answer), answer
    assert isinstance(second, Delivered), second
