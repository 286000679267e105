"""Mail through one pool of four connections while the server breaks off at random: none lost, doubles explained.

    python -m tests.benchmarks.mail [--mails 3000] [--drops 0.02] [--connections 4]

A real relay drains mails on an embedded PostgreSQL into a real SMTP server in this process. At each step of a session,
before and after a mail is stored, the server breaks the connection off with the probability `--drops`. Every mail has
to be there; one that is there twice is explained if an attempt of its event ended ambiguously, and a fault otherwise.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter
from typing import NamedTuple

import psycopg

from outbox.migrate import migrate
from tests.mail_server import MailServer, drop
from tests.processes import relay_process
from tests.queues import add_destination
from tests.servers import start_server
from tests.waiting import wait_until

OPEN = "select exists (select from outbox.deliveries)"
STEPS = ("MAIL", "RCPT", "DATA", "FINAL")
_EVENT = re.compile(rb"^Message-ID: <(?P<event>[0-9a-f-]{36})\.", re.MULTILINE)


class Counts(NamedTuple):
    """What became of one run. `seconds` is from the first attempt to the end of the last."""

    mails: int
    seconds: float
    drops: int
    attempts: int
    copies: Counter
    ambiguous: Counter

    @property
    def lost(self) -> int:
        return self.mails - len(self.copies)

    @property
    def doubled(self) -> int:
        return sum(copies - 1 for copies in self.copies.values())

    @property
    def unexplained(self) -> int:
        return sum(max(0, copies - 1 - self.ambiguous[event]) for event, copies in self.copies.items())


class Weather:
    """Breaks sessions off at random; after the final dot, half of the time when the mail is stored already."""

    def __init__(self, probability: float, seed: int = 1):
        self._probability = probability
        self._random = random.Random(seed)  # noqa: S311 - the same weather in each run
        self.drops = 0

    def __call__(self, _argument: str):
        if self._random.random() >= self._probability:
            return None
        self.drops += 1
        return drop(stores=self._random.random() < 0.5)


def measure(dsn: str, mails: int, probability: float, connections: int) -> Counts:
    """Record `mails` events, let a relay drain them, and count what arrived."""
    weather = Weather(probability)
    with (
        MailServer(**dict.fromkeys(STEPS, weather)) as server,
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        migrate(connection)
        settings = {"host": "127.0.0.1", "port": server.port, "security": "plain", "connections": connections}
        policy = {"schedule": ["100ms"], "max_attempts": 50, "timeout": "30s", "max_in_flight": 2 * connections}
        add_destination(connection, "mail", sink="email", settings=settings, policy=policy)
        connection.execute(
            "select outbox.record_event('mail.receipt', jsonb_build_object('to', 'ada' || n || '@example.com',"
            " 'from', 'shop@example.com', 'subject', 'Order ' || n, 'text', repeat('Thank you. ', 100)))"
            " from generate_series(1, %s) n",
            [mails],
        )
        deliver(dsn, connection)
        found = (_EVENT.search(mail.content) for mail in server.mails)
        copies = Counter(match["event"].decode() for match in found if match)
        seconds, attempts = history(connection)
        return Counts(mails, seconds, weather.drops, attempts, copies, ambiguous(connection))


def deliver(dsn: str, connection) -> None:
    """Run a relay until nothing is open any more."""
    with relay_process(dsn, "--log-level", "error") as relay:
        wait_until(lambda: not connection.execute(OPEN).fetchone()[0], "all mails delivered", 600)
        relay.stop()


def history(connection) -> tuple[float, int]:
    """Return the seconds from the first attempt to the end of the last, and the number of attempts."""
    return connection.execute(
        "select extract(epoch from max(started_at + duration_ms * interval '1 ms') - min(started_at))::float8, count(*)"
        " from outbox.attempts"
    ).fetchone()


def ambiguous(connection) -> Counter:
    """Return how many attempts of each event ended without anybody knowing whether the mail was taken."""
    return Counter(
        dict(
            connection.execute(
                "select event_id::text, count(*) from outbox.attempts where certainty = 'ambiguous' group by event_id"
            ).fetchall()
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mails", type=int, default=3000)
    parser.add_argument("--drops", type=float, default=0.02)
    parser.add_argument("--connections", type=int, default=4)
    options = parser.parse_args()
    with start_server("embedded", None) as server:
        for probability in (0.0, options.drops):
            database = f"bench_{time.monotonic_ns()}"
            with psycopg.connect(server, autocommit=True) as admin:
                admin.execute(f"create database {database}")
            dsn = psycopg.conninfo.make_conninfo(server, dbname=database)
            counts = measure(dsn, options.mails, probability, options.connections)
            print(
                f"{counts.mails:,} mails, {options.connections} connections, {counts.drops} drops:"
                f" {counts.mails / counts.seconds:,.0f}/s, {counts.attempts:,} attempts, {counts.lost} lost,"
                f" {counts.doubled} doubled after {counts.ambiguous.total()} ambiguous ends,"
                f" {counts.unexplained} unexplained"
            )
            if counts.lost or counts.unexplained:
                sys.exit(1)


if __name__ == "__main__":
    main()
