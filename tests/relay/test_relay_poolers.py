"""C10: everything works through PgBouncer in transaction mode, by polling, and says so once."""

from __future__ import annotations

import psycopg

from outbox.migrate import migrate, required_version
from tests.poolers import pgbouncer
from tests.processes import relay_process
from tests.queues import count, record
from tests.receivers import Receiver
from tests.waiting import wait_until


def test_c10_relays_behind_a_transaction_pooler_poll_and_deliver_everything(database, add_webhook):
    with Receiver() as receiver, pgbouncer(database.dsn) as dsn, database.connect() as connection:
        add_webhook(receiver, max_in_flight=20)
        with relay_process(dsn) as first, relay_process(dsn) as second:
            first.started()
            second.started()
            with psycopg.connect(dsn, prepare_threshold=None) as producer:
                for n in range(200):
                    record(producer, key=f"k{n % 7}" if n % 2 else None)
                    producer.commit()
            wait_until(lambda: count(connection, "deliveries") == 0, "all delivered", 60)
            assert (first.stop(), second.stop()) == (0, 0)
        assert len({request.header("webhook-id") for request in receiver.requests}) == len(receiver.requests) == 200
        for relay in (first, second):
            assert relay.output.count("no doorbell") == 1
            assert "prepared statement" not in relay.output
            assert "--listen-dsn" in relay.output


def test_c10_a_direct_listen_dsn_brings_the_doorbell_back(database, add_webhook):
    with Receiver() as receiver, pgbouncer(database.dsn) as dsn, database.connect() as connection:
        add_webhook(receiver)
        with relay_process(dsn, "--listen-dsn", database.dsn) as relay:
            relay.wait_for("doorbell on")
            record(connection)
            receiver.wait_for(1)
            assert relay.stop() == 0


def test_c10_migrating_through_a_transaction_pooler_works(empty_database):
    with (
        pgbouncer(empty_database.dsn) as dsn,
        psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as connection,
    ):
        migrate(connection)
        assert migrate(connection) == []
    with empty_database.connect() as connection:
        row = connection.execute("select max(version), count(*) = max(version) from outbox.migrations").fetchone()
        assert row[0] == required_version()
