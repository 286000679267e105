"""The relay's endpoint: what Prometheus reads of a real relay, and what probes are told."""

from __future__ import annotations

import json
import os
import signal
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from outbox.migrate import required_version
from outbox.problems import Dangers, find_problems
from outbox.rows import named_rows
from tests.processes import relay_process
from tests.queues import add_destination, count, record
from tests.receivers import Receiver, status
from tests.waiting import wait_until


def address_of(relay) -> str:
    return relay.wait_for(r"metrics at http://").rpartition("http://")[2].removesuffix("/metrics")


def get(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def scrape(address: str) -> dict[tuple, float]:
    """Return the samples by name and labels."""
    _, page = get(address, "/metrics")
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_metrics_count_what_the_relay_did(database, add_webhook):
    with Receiver(status(500), status(200)) as receiver, database.connect() as connection:
        add_webhook(receiver)
        record(connection)
        with relay_process(database.dsn, "--metrics", "127.0.0.1:0") as relay:
            address = address_of(relay)
            wait_until(lambda: count(connection, "deliveries") == 0, "delivered")
            found = wait_until(
                lambda: (
                    page
                    if (page := scrape(address)).get(
                        ("outbox_attempts_total", ("destination", "shop"), ("outcome", "delivered"))
                    )
                    else None
                ),
                "the settled attempt is counted",
            )
            assert found["outbox_attempts_total", ("destination", "shop"), ("outcome", "retry")] == 1
            assert found["outbox_claimed_deliveries_total", ("destination", "shop")] == 2
            assert found["outbox_attempt_seconds_count", ("destination", "shop")] == 2
            assert found["outbox_claim_seconds_count",] >= 2
            assert found["outbox_settle_seconds_count",] >= 2
            assert found["outbox_relay_ready",] == 1
            assert found["outbox_doorbell_listening",] == 1
            assert found["outbox_destination_state", ("destination", "shop"), ("state", "active")] == 1
            assert relay.stop() == 0


def test_metrics_tell_the_age_of_what_is_due_and_count_the_dead(database):
    with database.connect() as connection:
        add_destination(connection, "stuck", sink="handler", event_types=["order.*"], policy={"max_in_flight": 1})
        add_destination(connection, "quiet", sink="handler", event_types=["never.*"])
        for _ in range(3):
            record(connection)
        connection.execute("update outbox.deliveries set due_at = due_at - interval '90 seconds'")
        connection.execute(
            "insert into outbox.dead_letters (delivery_id, event_id, destination_id, attempt, interruptions, reason,"
            " recorded_at, died_at) select id, event_id, destination_id, 1, 0, 'http_500', recorded_at, now()"
            " from outbox.deliveries limit 2"
        )
        options = ("--app", "tests.apps.waiting", "--metrics", "127.0.0.1:0")
        with relay_process(database.dsn, *options) as relay:
            address = address_of(relay)
            found = wait_until(
                lambda: page if (page := scrape(address)).get(("outbox_in_flight",)) == 1 else None, "one in flight"
            )
            assert 90 < found["outbox_oldest_due_seconds", ("destination", "stuck")] < 600
            assert found["outbox_oldest_due_seconds", ("destination", "quiet")] == 0
            assert found["outbox_due_deliveries", ("destination", "stuck")] == 3
            assert found["outbox_dead_letters", ("destination", "stuck")] == 2
            assert found["outbox_dead_letters", ("destination", "quiet")] == 0


def test_no_label_names_an_event(database, add_webhook):
    with Receiver(status(503)) as receiver, database.connect() as connection:
        add_webhook(receiver)
        event_id = record(connection, key="customer-7")
        with relay_process(database.dsn, "--metrics", "127.0.0.1:0") as relay:
            address = address_of(relay)
            wait_until(lambda: "outcome" in get(address, "/metrics")[1], "an attempt is counted")
            page = get(address, "/metrics")[1]
            assert event_id not in page
            assert "customer-7" not in page


def test_probes_follow_the_relay(database, server):
    with relay_process(database.dsn, "--metrics", "127.0.0.1:0") as relay, database.connect() as connection:
        address = address_of(relay)
        wait_until(lambda: get(address, "/readyz") == (200, "ready\n"), "ready")
        assert get(address, "/livez") == (200, "alive\n")
        connection.execute("alter table outbox.deliveries rename to gone")
        wait_until(
            lambda: (answer := get(address, "/readyz"))[0] == 503 and "claims fail" in answer[1],
            "not ready without its table, and says why",
            30,
        )
        assert get(address, "/livez")[0] == 200, "a restart would not help"
        connection.execute("alter table outbox.gone rename to deliveries")
        wait_until(lambda: get(address, "/readyz")[0] == 200, "ready again")
        assert relay.stop() == 0


def test_a_scrape_answers_also_when_the_backlog_cannot_be_measured(database, add_webhook):
    with Receiver() as receiver, database.connect() as connection:
        add_webhook(receiver)
        connection.execute("alter table outbox.dead_letters rename to gone")
        with relay_process(database.dsn, "--metrics", "127.0.0.1:0") as relay:
            address = address_of(relay)
            relay.started()
            found = scrape(address)
            assert found["outbox_backlog_measured",] == 0
            assert not [sample for sample in found if sample[0] == "outbox_oldest_due_seconds"]
            connection.execute("alter table outbox.gone rename to dead_letters")
            wait_until(lambda: scrape(address)["outbox_backlog_measured",] == 1, "measured again")
            assert "backlog not measured" in relay.output


@pytest.mark.parametrize("address", ["9464", "localhost:", "localhost:port", "localhost:70000"])
def test_an_address_that_is_none_is_refused_with_the_remedy(database, address):
    with relay_process(database.dsn, "--metrics", address) as relay:
        assert relay.ended() == 2
        assert "write 127.0.0.1:9464" in relay.output


def test_a_taken_port_is_said_in_one_line(database):
    with relay_process(database.dsn, "--metrics", "127.0.0.1:0") as first:
        address = address_of(first)
        with relay_process(database.dsn, "--metrics", address) as second:
            assert second.ended() == 2
            assert f"--metrics {address}: cannot listen there" in second.output
            assert "Traceback" not in second.output


def test_each_failed_attempt_is_one_line_and_delivered_ones_at_debug(database, add_webhook):
    with Receiver(status(500), status(200)) as receiver, database.connect() as connection:
        add_webhook(receiver)
        event_id = record(connection)
        with relay_process(database.dsn, "--log-format", "json", "--log-level", "debug") as relay:
            wait_until(lambda: count(connection, "deliveries") == 0, "delivered")
            relay.stop()
        entries = [json.loads(line) for line in relay.lines]
        attempts = [entry for entry in entries if entry["logger"] == "relays.attempts"]
        assert [(e["event"], e["destination"], e["attempt"], e["outcome"], e["status"]) for e in attempts] == [
            (event_id, "shop", 1, "retry", 500),
            (event_id, "shop", 2, "delivered", 200),
        ]
        assert attempts[0]["level"] == "info"
        assert attempts[0]["reason"] == "http_500"
        assert attempts[0]["wait_seconds"] >= 0.2
        assert all("time" in entry and "+00:00" in entry["time"] for entry in entries)


def test_the_console_log_has_a_line_for_people(database, add_webhook):
    with Receiver(status(500), status(200)) as receiver, database.connect() as connection:
        add_webhook(receiver)
        event_id = record(connection)
        with relay_process(database.dsn) as relay:
            line = relay.wait_for(rf"event {event_id} to destination shop, attempt 1: retry \(http_500\) in \d+ ms")
            assert ", again in 0.2" in line


def test_metrics_are_served_by_every_child_of_a_supervisor(database):
    with relay_process(database.dsn, "--processes", "2", "--metrics", "127.0.0.1:0") as relay:
        wait_until(lambda: len([line for line in relay.lines if "metrics at" in line]) == 2, "both children serve")
        relay.signal(signal.SIGTERM)
        assert relay.ended() in {0, os.EX_OK}


def test_readiness_does_not_come_and_go_while_the_database_refuses(database):
    with relay_process(database.dsn, "--metrics", "127.0.0.1:0") as relay, database.connect() as connection:
        address = address_of(relay)
        wait_until(lambda: get(address, "/readyz")[0] == 200, "ready")
        connection.execute("alter table outbox.deliveries rename to gone")
        wait_until(lambda: get(address, "/readyz")[0] == 503, "not ready")
        seen = set()

        def has_tried_often() -> bool:
            seen.add(get(address, "/readyz")[0])
            return sum("not claiming" in line for line in relay.lines) >= 6

        wait_until(has_tried_often, "six failed rounds", 60)
        assert seen == {503}
        [problem] = wait_until(lambda: failing(connection), "its heartbeat says that it does not work")
        assert "is alive and does not work: claims fail" in problem
        connection.execute("alter table outbox.gone rename to deliveries")
        wait_until(lambda: get(address, "/readyz")[0] == 200, "ready again")
        wait_until(lambda: failing(connection) == [], "its heartbeat says that it works again")


def failing(connection) -> list[str]:
    """Return what `status` says of relays that are alive and do not work; the table it counts may be away."""
    relays = [row._asdict() for row in named_rows(connection, "list_relays")]
    totals = dict.fromkeys(("waiting", "scheduled", "leased", "blocked"), 0)
    overview = {
        "database": {"schema_version": required_version()},
        "relays": relays,
        "totals": totals,
        "destinations": [],
    }
    found = find_problems(overview, Dangers())
    return [problem["message"] for problem in found if problem["code"] == "relay_failing"]
