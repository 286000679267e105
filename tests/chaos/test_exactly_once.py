"""A relay killed at any point of a transactional handler: each effect is in the database exactly once."""

from __future__ import annotations

import random
import signal
import time

import pytest

from tests.processes import RelayProcess
from tests.queues import add_destination
from tests.waiting import wait_until

OPTIONS = ("--app", "tests.apps.ledger", "--lease", "3s", "--poll", "100ms", "--concurrency", "10")
POINTS = [
    "before the effect",
    "after the effect",
    "after the settling statement",
    "before the commit",
    "after the commit",
    "after it is known",
]


@pytest.fixture
def ledger(database):
    """A connection to a database with a ledger, and a handler destination whose attempts are short."""
    with database.connect() as connection:
        connection.execute("create table ledger (event_id uuid not null, amount integer not null)")
        add_destination(
            connection,
            "ledger",
            sink="handler",
            event_types=("order.paid", "order.sent", "order.counted"),
            policy={"timeout": "900ms", "base": "50ms", "cap": "50ms"},
        )
        yield connection


def record(connection, event_type: str, count: int) -> None:
    connection.execute(
        "select outbox.record_event(%s, jsonb_build_object('n', n)) from generate_series(1, %s) n", [event_type, count]
    )


class Fleet:
    """Relays that are started again when they die."""

    def __init__(self, dsn: str, size: int, **environment: str):
        self._start = lambda: RelayProcess(dsn, *OPTIONS, environment=environment)
        self.relays = [self._start() for _ in range(size)]
        self.deaths = 0

    def mend(self) -> None:
        for position, relay in enumerate(self.relays):
            if relay.process.poll() is not None:
                assert relay.process.returncode == -signal.SIGKILL, relay.output
                self.deaths += 1
                self.relays[position] = self._start()

    def kill_one(self) -> None:
        random.choice(self.relays).kill()  # noqa: S311 - any of them

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        for relay in self.relays:
            relay.kill()


def is_drained(connection) -> bool:
    return connection.execute("select not exists (select from outbox.deliveries)").fetchone()[0]


def assert_exactly_once(connection, count: int) -> None:
    assert connection.execute("select count(*) from outbox.dead_letters").fetchone() == (0,)
    effects = connection.execute("select count(*), count(distinct event_id), sum(amount) from ledger").fetchone()
    assert effects == (count, count, count * (count + 1) // 2)
    delivered = connection.execute(
        "select count(*), count(distinct event_id) from outbox.attempts where outcome = 'delivered'"
    ).fetchone()
    assert delivered == (count, count)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("event_type", ["order.paid", "order.sent"])
@pytest.mark.parametrize("point", POINTS)
def test_each_effect_is_there_once_when_the_relay_dies(database, ledger, tmp_path, event_type, point):
    record(ledger, event_type, 60)
    with Fleet(database.dsn, 2, LEDGER_KILL=point, LEDGER_SEEN=str(tmp_path)) as fleet:

        def mended_and_drained():
            fleet.mend()
            return is_drained(ledger)

        wait_until(mended_and_drained, "everything settled", 200)
        assert list(tmp_path.iterdir())  # one mark for each death
    assert_exactly_once(ledger, 60)


@pytest.mark.timeout(300)
def test_a_thousand_effects_are_there_once_under_random_kills(database, ledger):
    """1,000 events in 20 bursts, each cut short by the death of one of two relays at a random moment."""
    with Fleet(database.dsn, 2) as fleet:
        for burst in range(20):
            for relay in fleet.relays:
                relay.started()
            record_more(ledger, burst * 50, 50)
            time.sleep(random.uniform(0, 0.15))  # noqa: S311 - any moment of the burst will do
            fleet.kill_one()
            fleet.mend()

        def mended_and_drained():
            fleet.mend()
            return is_drained(ledger)

        wait_until(mended_and_drained, "everything settled", 240)
        interrupted = ledger.execute("select count(*) from outbox.attempts where outcome = 'interrupted'").fetchone()
        assert fleet.deaths == 20
        assert interrupted[0] >= 20
    assert_exactly_once(ledger, 1000)


def record_more(connection, start: int, count: int) -> None:
    connection.execute(
        "select outbox.record_event((array['order.paid', 'order.sent', 'order.counted'])[1 + n %% 3],"
        " jsonb_build_object('n', n)) from generate_series(%s::integer, %s) n",
        [start + 1, start + count],
    )
