"""The database goes away and comes back: relays wait, keep their results, and go on by themselves (C12)."""

from __future__ import annotations

import tempfile
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from outbox.migrate import migrate
from tests.chaos.cluster import CrashingServer
from tests.chaos.proxy import Proxy, upstream
from tests.processes import relay_process
from tests.queues import add_destination, attempts, count, record
from tests.receivers import Receiver, delayed, status
from tests.servers import SETTINGS
from tests.waiting import wait_until


@pytest.fixture
def own_server():
    """A server of this test alone, which it may stop."""
    with tempfile.TemporaryDirectory(prefix="outbox-test-") as folder:
        Path(folder).chmod(0o755)
        with CrashingServer(Path(folder) / "pg", settings=SETTINGS) as server:
            with psycopg.connect(server.dsn(), autocommit=True) as connection:
                migrate(connection)
            yield server


def add_webhook(connection, receiver) -> None:
    add_destination(
        connection,
        sink="webhook",
        settings={
            "url": receiver.url(),
            "secret": "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX",
            "allow_http": True,
            "allow_networks": ["127.0.0.0/8"],
        },
        policy={"schedule": ["0.2s"], "timeout": "10s"},
    )


def test_c12_a_restarted_database_is_found_again_and_the_result_in_between_is_kept(own_server):
    with Receiver(delayed(1.5, status(200)), status(200)) as receiver:
        with psycopg.connect(own_server.dsn(), autocommit=True) as connection:
            add_webhook(connection, receiver)
            with relay_process(own_server.dsn()) as relay:
                relay.started()
                event_id = record(connection)
                receiver.wait_for(1)
                own_server.restart(mode="immediate", pause_seconds=2.0)
                with psycopg.connect(own_server.dsn(), autocommit=True) as again:
                    wait_until(lambda: attempts(again, event_id), "the result from before the restart", 15)
                    assert [row[2] for row in attempts(again, event_id)] == ["delivered"]
                    later = record(again)
                    wait_until(lambda: attempts(again, later), "work goes on", 15)
                    assert relay.stop() == 0
        assert len(receiver.requests) == 2
        assert "Traceback" not in relay.output


def test_c12_killed_sessions_are_reopened(database):
    with Receiver() as receiver, database.connect() as connection:
        add_webhook(connection, receiver)
        with relay_process(database.dsn) as relay:
            relay.started()
            for _ in range(5):
                connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where application_name like 'outbox-relay%' and datname = current_database()"
                )
                event_id = record(connection)
                wait_until(lambda event_id=event_id: attempts(connection, event_id), "delivered after the kill", 20)
            assert relay.stop() == 0
        assert count(connection, "deliveries") == 0
        assert "Traceback" not in relay.output


def test_c11_a_dead_listening_session_costs_at_most_one_poll_and_comes_back(database):
    with Receiver() as receiver, database.connect() as connection:
        add_webhook(connection, receiver)
        with relay_process(database.dsn, "--poll", "2s") as relay:
            relay.started()
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name = 'outbox-relay doorbell' and datname = current_database()"
            )
            event_id = record(connection)
            wait_until(lambda: attempts(connection, event_id), "delivered by polling", 10)
            relay.wait_for("doorbell is back", 30)
            assert relay.stop() == 0


def test_c12_connections_gone_silent_are_given_up_and_work_goes_on(database):
    """A firewall that forgets connections: no answer, no FIN, and new connections work."""
    parts = conninfo_to_dict(database.dsn)
    with Receiver() as receiver, Proxy(upstream(parts)) as proxy, database.connect() as connection:
        add_webhook(connection, receiver)
        dsn = make_conninfo(database.dsn, host="127.0.0.1", port=proxy.port)
        with relay_process(dsn) as relay:
            relay.started()
            proxy.silence()
            proxy.heal()
            event_id = record(connection)
            wait_until(lambda: attempts(connection, event_id), "delivered and settled", 100)
            assert relay.stop() == 0
        assert "Traceback" not in relay.output


def test_c02_a_relay_stops_in_order_while_the_database_is_away(own_server):
    with relay_process(own_server.dsn()) as relay:
        relay.started()
        own_server.crash()
        relay.wait_for("not claiming")
        assert relay.stop(60) == 0
    assert "Traceback" not in relay.output
