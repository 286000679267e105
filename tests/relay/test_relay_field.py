"""Field cases of the relay's core: poison events, deadlocks, fairness, transactions held open, clocks."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.processes import relay_process
from tests.queues import add_destination, attempts, count, open_deliveries, record
from tests.receivers import Receiver, delayed, hanging, status
from tests.waiting import wait_until


def test_c05_an_event_that_kills_its_relay_dies_alone(database):
    """Its neighbours are delivered and keep their attempts; history has one row per crash."""
    with database.connect() as connection:
        add_destination(connection, "poison", sink="handler", event_types=["poison.kill"], policy={"timeout": "1s"})
        add_destination(connection, "healthy", sink="handler", event_types=["healthy.*"], policy={"timeout": "1s"})
        poison = record(connection, "poison.kill")
        for _ in range(100):
            record(connection, "healthy.one")
        options = ["--app", "tests.apps.hazards", "--lease", "3.1s", "--processes", "2"]
        with relay_process(database.dsn, *options) as supervisor:
            wait_until(lambda: count(connection, "dead_letters") == 1, "the poison event is dead", 90)
            wait_until(lambda: count(connection, "deliveries") == 0, "the healthy ones are delivered", 30)
            assert supervisor.stop() == 0
        reason = connection.execute("select reason, detail, attempt from outbox.dead_letters").fetchone()
        assert reason == ("relay_died", "relay died during attempt 4 (4 times)", 4)
        assert [row[2] for row in attempts(connection, poison)] == ["interrupted"] * 3 + ["dead"]
        healthy = connection.execute(
            "select count(*), count(distinct event_id) from outbox.attempts a"
            " join outbox.events e on e.id = a.event_id where e.type = 'healthy.one' and a.outcome = 'delivered'"
        ).fetchone()
        assert healthy == (100, 100)


def test_a_handler_that_raises_what_is_no_exception_is_an_outcome_like_others(database):
    with database.connect() as connection:
        add_destination(connection, "poison", sink="handler", event_types=["poison.exit"], policy={"max_attempts": 1})
        record(connection, "poison.exit")
        with relay_process(database.dsn, "--app", "tests.apps.hazards") as relay:
            relay.started()
            wait_until(lambda: count(connection, "dead_letters") == 1, "dead after its one try")
            record(connection, "healthy.one", destination=None)
            assert relay.stop() == 0
        assert "Traceback" not in relay.output


def test_c17_a_slow_destination_does_not_hold_up_the_others(database, add_webhook):
    with Receiver(hanging()) as slow, Receiver() as quick, database.connect() as connection:
        add_webhook(slow, "slow", timeout="5s", max_in_flight=100)
        for _ in range(500):
            record(connection)
        with relay_process(database.dsn, "--concurrency", "10") as relay:
            relay.started()
            slow.wait_for(5)
            add_webhook(quick, "quick")
            connection.execute("update outbox.destinations set event_types = '{}' where name = 'slow'")
            for _ in range(100):
                record(connection)
            quick.wait_for(100, 60)
            assert relay.stop() in {0, 1}
        assert connection.execute("select max(in_flight) <= 10 from outbox.relays").fetchone() == (True,)


def test_c19_no_transaction_is_open_while_a_receiver_is_slow(database, add_webhook):
    with Receiver(delayed(4.0, status(200))) as receiver, database.connect() as connection:
        add_webhook(receiver, max_in_flight=40, timeout="60s")
        for _ in range(40):
            record(connection)
        connection.execute(f"alter database {database.name} set idle_in_transaction_session_timeout = '3s'")
        connection.execute(f"alter database {database.name} set statement_timeout = '30s'")
        oldest, done = [0.0], threading.Event()

        def watch():
            with database.connect() as watcher:
                while not done.wait(0.05):
                    row = watcher.execute(
                        "select coalesce(max(extract(epoch from clock_timestamp() - state_change)), 0)"
                        " from pg_stat_activity where state like 'idle in transaction%' and"
                        " application_name like 'outbox-relay%' and datname = current_database()"
                    ).fetchone()
                    oldest[0] = max(oldest[0], float(row[0]))

        watcher = threading.Thread(target=watch)
        watcher.start()
        with relay_process(database.dsn) as relay:
            relay.started()
            wait_until(lambda: count(connection, "deliveries") == 0, "all delivered", 60)
            relay.stop()
        done.set()
        watcher.join()
        assert oldest[0] < 2, "an attempt took 4 s"


def test_c07_claims_settles_renewals_and_repairs_never_deadlock(database, add_webhook):
    with Receiver() as receiver, database.connect() as connection, database.connect() as holder:
        add_webhook(receiver, timeout="1s", max_in_flight=50, schedule=["0.05s"])
        deadlocks = "select deadlocks from pg_stat_database where datname = current_database()"
        for n in range(1500):
            record(connection, **({"key": f"k{n % 20}"} if n % 3 == 0 else {}))
        done = threading.Event()

        def repair():
            with database.connect() as operator:
                while not done.wait(0.02):
                    operator.execute("select outbox.compact_outcome_counts('30 days')")
                    operator.execute(
                        "update outbox.deliveries set due_at = clock_timestamp() where id in ("
                        " select id from outbox.deliveries where lease_token is null"
                        " order by random() limit 20 for update skip locked)"
                    )

        repairing = threading.Thread(target=repair)
        repairing.start()
        with relay_process(database.dsn, "--lease", "3.1s") as first, relay_process(database.dsn, "--lease", "3.1s"):
            first.started()
            with holder.transaction():
                held = [row[0] for row in open_deliveries(holder)[-10:]]
                holder.execute("select from outbox.deliveries where id = any(%s) for update skip locked", [held])
                wait_until(lambda: count(connection, "deliveries") <= 400, "the others go on", 90)
            wait_until(lambda: count(connection, "deliveries") == 0, "all delivered", 90)
        done.set()
        repairing.join()
        assert connection.execute(deadlocks).fetchone() == (0,)
        assert count(connection, "dead_letters") == 0


@pytest.mark.parametrize("offset", ["+10m", "-10m", "-24h"])
def test_c14_the_relay_s_own_clock_does_not_matter(database, offset):
    """Due times, leases and history follow the database's clock, whatever the relay's says."""
    libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    assert libraries, "this test needs faketime: apt-get install faketime"
    with database.connect() as connection:
        add_destination(connection, "healthy", sink="handler", event_types=["healthy.*"])
        now = record(connection, "healthy.now")
        later = connection.execute(
            "select outbox.record_event('healthy.later', due_at => clock_timestamp() + interval '2 s')::text"
        ).fetchone()[0]
        environment = {"LD_PRELOAD": str(libraries[0]), "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        with relay_process(database.dsn, "--app", "tests.apps.hazards", environment=environment) as relay:
            relay.started()
            wait_until(lambda: attempts(connection, later), "the scheduled one")
            assert relay.stop() == 0
        rows = connection.execute(
            "select a.started_at >= o.recorded_at - interval '0.1 s' and a.started_at <= clock_timestamp(),"
            " a.outcome::text from outbox.attempts a join outbox.events o on o.id = a.event_id"
            " where a.event_id in (%s, %s)",
            [now, later],
        ).fetchall()
        assert rows == [(True, "delivered")] * 2
        early = connection.execute(
            "select a.started_at < e.recorded_at + interval '1.9 s' from outbox.attempts a"
            " join outbox.events e on e.id = a.event_id where e.id = %s",
            [later],
        ).fetchone()
        assert early == (False,)
