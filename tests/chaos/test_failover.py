"""A standby takes over under load: relays follow by themselves, and all that is committed there is delivered (C12)."""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from outbox.migrate import migrate
from tests.chaos.checks import complaints
from tests.chaos.cluster import CrashingServer, Pair
from tests.chaos.evidence import Evidence
from tests.chaos.fleet import Fleet
from tests.chaos.history import read_history
from tests.chaos.ledger import Ending, Ledger
from tests.chaos.moods import Moody
from tests.chaos.producers import Producers
from tests.processes import relay_process
from tests.queues import add_destination, attempts, count, record
from tests.receivers import Receiver, delayed, status
from tests.servers import SETTINGS
from tests.waiting import wait_until

SECRET = "whsec_Y2hhb3MtY2hhb3MtY2hhb3MtY2hhb3MtY2hhb3M="
TYPES = {"order.paid", "order.sent"}
POLICY = {"schedule": ["0.3s", "0.6s", "1s"], "max_attempts": 1000, "timeout": "2s", "max_in_flight": 16}


@pytest.fixture
def folder():
    """A folder that the account of the servers can reach."""
    with tempfile.TemporaryDirectory(prefix="outbox-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def add_webhook(connection, receiver: Receiver, name: str = "shop", **policy) -> None:
    settings = {"url": receiver.url(), "secret": SECRET, "allow_http": True, "allow_networks": ["127.0.0.0/8"]}
    add_destination(connection, name, sink="webhook", settings=settings, policy={**POLICY, **policy})


def committed(ledger: Ledger) -> set[str]:
    return ledger.ids(Ending.COMMITTED)


@pytest.mark.timeout(600)
def test_c12_relays_follow_a_failover_and_deliver_all_that_is_committed_there(folder):
    ledger = Ledger()
    moody = Moody("north", ledger, 1, SECRET)
    with ExitStack() as stack:
        pair = stack.enter_context(Pair(folder))
        stack.enter_context(moody.receiver)
        with pair.primary.connect() as connection:
            migrate(connection)
            add_webhook(connection, moody.receiver, "north")
        fleet = stack.enter_context(Fleet([pair.dsn, pair.dsn]))
        producers = stack.enter_context(Producers(pair.dsn, ledger, 1))
        wait_until(lambda: len(ledger.sightings) > 100, "deliveries before the failover", 120)
        pair.fail_over()
        before = committed(ledger)
        wait_until(lambda: len(committed(ledger) - before) > 50, "commits on the new primary", 120)
        producers.stop()
        moody.recover()
        with pair.standby.connect() as connection:
            wait_until(lambda: count(connection, "deliveries") == 0, "all delivered or dead", 240)
            fleet.stop()
            history = read_history(pair.dsn, connection, sorted(before)[:1])
    assert (fleet.starts, fleet.faults) == (2, []), "the relays went on without a restart"
    evidence = Evidence(ledger, history, {"north": TYPES}, {"north": 1000}, (SECRET,), fleet.outputs)
    assert complaints(evidence) == []


def test_c12_a_server_turned_read_only_is_waited_for_and_the_result_is_kept(folder):
    with (
        CrashingServer(folder / "pg", settings=SETTINGS) as server,
        Receiver(delayed(1.0, status(200)), status(200)) as receiver,
        server.connect() as connection,
    ):
        migrate(connection)
        add_webhook(connection, receiver, timeout="20s")
        with relay_process(server.dsn()) as relay:
            relay.started()
            event_id = record(connection)
            receiver.wait_for(1)
            make_read_only(connection, is_on=True)
            relay.wait_for("outcomes not settled yet.*read-only", 60)
            relay.wait_for("not claiming.*read-only", 60)
            make_read_only(connection, is_on=False)
            wait_until(lambda: attempts(connection, event_id), "the result from before", 60)
            later = record(connection)
            wait_until(lambda: attempts(connection, later), "work goes on", 60)
            assert relay.stop() == 0
        assert [row[2] for row in attempts(connection, event_id)] == ["delivered"]
        assert len(receiver.requests) == 2
        assert "Traceback" not in relay.output


def make_read_only(connection, *, is_on: bool) -> None:
    """Let every session, also those that are open, be read-only or not; the session that asks stays as it is."""
    connection.execute("set default_transaction_read_only = off")
    connection.execute(f"alter system set default_transaction_read_only = {json.dumps(is_on)}")
    connection.execute("select pg_reload_conf()")
