"""A receiver that mostly works, else fails, dawdles, breaks off or lies; it writes down what it saw and did."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outbox.errors import InvalidSignature
from outbox.webhooks import verify
from tests.chaos.ledger import Sighting
from tests.receivers import Receiver, answer_bytes

if TYPE_CHECKING:
    from tests.chaos.ledger import Ledger
    from tests.receivers import Received, Turn

__all__ = ["MOODS", "Moody"]

ALWAYS_THE_SAME = ("webhook-id", "idempotency-key", "content-type", "user-agent")


@dataclass(frozen=True)
class Mood:
    """How a request is treated: after `wait` seconds `answer` is sent, then the connection ends as `end` says.

    `took`: the receiver does what the event asks for. The time-out of the destinations is 2 s.
    """

    name: str
    weight: float
    answer: bytes
    wait: float = 0.0
    took: bool = True
    end: str = "keep"

    @property
    def accepts(self) -> bool:
        """Whether the answer is a 2xx status."""
        return self.answer.startswith(b"HTTP/1.1 2")


MOODS = (
    Mood("works", 70, answer_bytes(200)),
    Mood("works slowly", 8, answer_bytes(202, b"later"), wait=0.3),
    Mood("fails", 6, answer_bytes(500, b"broken"), took=False),
    Mood("is busy", 0.5, answer_bytes(503, headers={"retry-after": "1"}), took=False),
    Mood("redirects", 1, answer_bytes(302, headers={"location": "http://elsewhere.example/"}), took=False),
    Mood("refuses for good", 0.5, answer_bytes(413), took=False),
    Mood("answers too late", 1.5, answer_bytes(200), wait=2.6),
    Mood("drips its head", 1, b"HTTP/1.1 5", end="drip", took=False),
    Mood("drips its body", 1, b"HTTP/1.1 200 Dripping\r\ncontent-length: 100000\r\n\r\n", end="drip"),
    Mood("closes after reading", 2, b"", end="close"),
    Mood("resets after reading", 2, b"", end="reset"),
    Mood("takes it and says it failed", 2, answer_bytes(500, b"not really")),
    Mood("breaks off its answer", 2, b"HTTP/1.1 200 Broken\r\ncontent-length: 5000\r\n\r\nno", end="close"),
    Mood("speaks nonsense", 1, b"SSH-2.0-OpenSSH_9.2\r\n\r\n", end="close"),
    Mood("closes kept connections", 3, answer_bytes(200), end="close"),
)


class Moody:
    """A receiver of that kind, named for the destination that sends to it; its moods are drawn from `seed`."""

    def __init__(self, name: str, ledger: Ledger, seed: int, secret: str) -> None:
        self.name = name
        self.is_well = False
        self._ledger = ledger
        self._secret = secret
        self._dice = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
        self.receiver = Receiver(self._treat)

    def recover(self) -> None:
        """Answer 200 from now on."""
        self.is_well = True

    async def _treat(self, turn: Turn) -> None:
        self.receiver.requests.clear()  # the ledger has what matters; hours of requests would fill the memory
        [mood] = self._dice.choices(MOODS, [mood.weight for mood in MOODS])
        mood = MOODS[0] if self.is_well else mood
        at = time.monotonic()
        accepted_at = None
        try:
            await asyncio.sleep(mood.wait)
            if mood.accepts:
                accepted_at = time.monotonic()  # before it is sent: the relay may go on at once
        finally:
            self._ledger.add_sighting(self._sighting(turn.request, mood, at, accepted_at))
        await turn.send(mood.answer)
        await _end(turn, mood.end)

    def _sighting(self, request: Received, mood: Mood, at: float, accepted_at: float | None) -> Sighting:
        return Sighting(
            receiver=self.name,
            event_id=request.header("webhook-id"),
            attempt=int(request.header("webhook-attempt")),
            body=request.body,
            identity=tuple((name, request.header(name)) for name in ALWAYS_THE_SAME),
            is_signed=_is_signed(request, self._secret),
            at=at,
            did=mood.name,
            took=mood.took,
            accepted_at=accepted_at,
        )


async def _end(turn: Turn, end: str) -> None:
    if end == "close":
        turn.close()
    elif end == "reset":
        turn.reset()
    elif end == "drip":
        with contextlib.suppress(OSError):
            while not turn.writer.is_closing():
                await turn.send(b" ")
                await asyncio.sleep(0.1)


def _is_signed(request: Received, secret: str) -> bool:
    try:
        return verify(dict(request.headers), request.body, secret) == request.header("webhook-id")
    except InvalidSignature:
        return False
