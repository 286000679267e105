"""Whatever bytes a receiver sends, an exchange has an outcome, and 2xx only where the bytes say so."""

from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relays.http.addresses import Guard, parse_networks
from relays.http.engine import KEEP_BYTES, Answer, Failure, Request, Route
from relays.http.url import parse_url
from relays.sinks.webhook.engines import open_engine
from tests.receivers import Receiver, answer_bytes

GUARD = Guard(parse_networks(["127.0.0.0/8"], "allow_networks"))

statuses = st.sampled_from([100, 101, 200, 204, 299, 302, 404, 500, 600, 999])
field = st.text(st.characters(codec="latin-1", exclude_characters="\r\n"), max_size=20)
headers = st.dictionaries(
    st.sampled_from(["x-a", "content-length", "transfer-encoding", "connection"]), field, max_size=3
)
answers = st.builds(
    lambda status, fields, body: (
        f"HTTP/1.1 {status} X\r\n".encode()
        + "".join(f"{name}: {value}\r\n" for name, value in fields.items()).encode("latin-1")
        + b"\r\n"
        + body
    ),
    statuses,
    headers,
    st.binary(max_size=100),
)


@st.composite
def mutated(draw) -> bytes:
    """Return a good answer with some bytes changed, removed or added."""
    data = bytearray(answer_bytes(draw(statuses), draw(st.binary(max_size=20)), {"x-a": "b"}))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        data[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=3))
    return bytes(data)


@pytest.mark.parametrize("engine", ["aiohttp", "httpx"])
def test_any_bytes_have_an_outcome_and_none_becomes_a_delivery_by_itself(engine):
    sent = [b""]

    async def play(turn):
        await turn.send(sent[0])
        turn.close()

    with asyncio.Runner() as runner, Receiver(play) as receiver:
        opened = runner.run(_open(engine))
        request = Request(Route(parse_url(receiver.url(), "url"), guard=GUARD), {}, b"{}")

        @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.one_of(st.binary(max_size=200), answers, mutated(), st.lists(answers, max_size=3).map(b"".join)))
        def check(data):
            sent[0] = data
            outcome = runner.run(opened.exchange(request, 5))
            assert isinstance(outcome, Answer | Failure)
            if isinstance(outcome, Answer):
                assert len(outcome.body) <= KEEP_BYTES
                assert re.search(rb"HTTP/[0-9.]+ +%d" % outcome.status, data), (outcome, data)
            if isinstance(outcome, Answer) and outcome.status in range(200, 300):
                assert re.match(rb"\s*(HTTP/1\.[01] +1[0-9][0-9].*)?HTTP/[0-9.]+ +2", data, re.DOTALL), (outcome, data)

        try:
            check()
        finally:
            runner.run(opened.close())


async def _open(engine: str):
    return open_engine(engine)
