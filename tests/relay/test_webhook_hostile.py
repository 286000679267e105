"""One relay, many hostile receivers and a good one: that is served, every attempt recorded, and memory bounded."""

from __future__ import annotations

import itertools
import re
from contextlib import ExitStack
from pathlib import Path

from tests.processes import relay_process
from tests.queues import count, record
from tests.receivers import Receiver, bomb, dripping, endless, hanging, raw, reset, status
from tests.waiting import wait_until

MIB = 1024


def flooding(data: bytes):
    """Send `data` at full speed until the client hangs up."""

    async def play(turn):
        while True:
            await turn.send(data)

    return play


HOSTILE = {
    "hangs": hanging(),
    "drips": dripping(b"x-slow: 1\r\n", b"HTTP/1.1 200 OK\r\n", 0.05),
    "never-ends": endless(code=500),
    "interim-answers": flooding(b"HTTP/1.1 102 Processing\r\n\r\n" * 1000),
    "empty-lines": flooding(b"\r\n" * 10_000),
    "large-header": raw(b"HTTP/1.1 500 X\r\nx: " + b"x" * 2**21),
    "bomb": bomb(code=500),
    "resets": reset(b"HTTP/1.1 2"),
    "no-http": raw(bytes(range(256)) * 40, close=True),
    "old-http": raw(b"<html>hello</html>", close=True),
    "elsewhere": status(307, location="file:///etc/passwd"),
    "escapes": status(500, b"\x1b]0;owned\x07\x1b[2J\x00"),
}  # fmt: skip


def largest_memory(pid: int) -> int:
    """Return the most memory a process had, in KiB."""
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1])


def test_hostile_receivers_do_not_stop_the_others(database, add_webhook):
    with ExitStack() as stack, database.connect() as connection:
        good = stack.enter_context(Receiver())
        add_webhook(good, "good", timeout="20s")
        for name, script in HOSTILE.items():
            add_webhook(stack.enter_context(Receiver(script)), name, timeout="3s", schedule=["1h"])
        for _ in range(4):
            record(connection)
        with relay_process(database.dsn) as relay:
            wait_until(lambda: count(connection, "attempts") >= 4 * (1 + len(HOSTILE)), "each is tried", 120)
            for _ in range(20):
                record(connection, destination="good")
            good.wait_for(24, 60)
            memory = largest_memory(relay.process.pid)
            assert relay.stop() == 0
        outcomes = connection.execute(
            "select d.name, a.outcome::text, a.certainty::text, a.detail, count(*) from outbox.attempts a"
            " join outbox.destinations d on d.id = a.destination_id group by 1, 2, 3, 4"
        ).fetchall()
        tried = {
            name: {outcome for _, outcome, *_ in rows}
            for name, rows in itertools.groupby(sorted(outcomes, key=lambda row: row[0]), key=lambda row: row[0])
        }
        assert tried == {"good": {"delivered"}} | {name: {"retry"} for name in HOSTILE}
        assert not any("\x1b" in (detail or "") for *_, detail, _ in outcomes)
        assert memory < 200 * MIB, f"{memory} KiB"
        assert "Traceback" not in relay.output
