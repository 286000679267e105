"""Webhooks through a real relay: what the database says about each kind of answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from outbox.webhooks import verify
from tests.processes import relay_process
from tests.queues import open_deliveries, record
from tests.receivers import Receiver, closing, raw, reset, status
from tests.waiting import wait_until

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"


def history(database, event_id: str | None = None) -> list:
    """Return (outcome, reason, status, certainty, detail) of all attempts in order."""
    with database.connect() as connection:
        return connection.execute(
            "select outcome::text, reason, status, certainty::text, detail from outbox.attempts"
            " where %(id)s::uuid is null or event_id = %(id)s::uuid order by started_at, attempt",
            {"id": event_id},
        ).fetchall()


def wait_for_attempts(database, count: int) -> list:
    return wait_until(lambda: len(rows := history(database)) >= count and rows, f"{count} attempts")


@pytest.fixture
def relayed(database):
    """Record events and drain or run the relay over them."""

    def run(*payloads, **arguments) -> list[str]:
        with database.connect() as connection:
            return [record(connection, payload=payload, **arguments) for payload in payloads]

    return run


def test_w01_signatures_hold_over_failures_and_a_restart_of_the_relay(database, add_webhook, relayed):
    payload = {"z": "Zoë 東京", "a": [1.10, 9007199254740993, {"b": None}], "/": "\\"}
    with Receiver(status(500), status(503), status(200)) as receiver:
        add_webhook(receiver)
        (event_id,) = relayed(payload)
        with relay_process(database.dsn) as relay:
            receiver.wait_for(1)
            assert relay.stop() == 0
        with relay_process(database.dsn):
            requests = receiver.wait_for(3)
            wait_until(lambda: history(database)[-1][0] == "delivered", "the third attempt is settled")
        for request in requests:
            assert verify(dict(request.headers), request.body, SECRET) == event_id
        assert len({request.body for request in requests}) == 1
        assert b"9007199254740993" in requests[0].body


def test_stale_connection_has_a_row_for_each_request(database, add_webhook, relayed):
    with Receiver(status(200), closing(), status(201)) as receiver, relay_process(database.dsn):
        add_webhook(receiver)
        relayed({})
        wait_for_attempts(database, 1)
        (second,) = relayed({})
        wait_for_attempts(database, 3)
        assert len(receiver.requests) == 3
    rows = [row[:4] for row in history(database, second)]
    assert sorted(rows) == [("delivered", None, 201, "answered"), ("retry", "stale_connection", None, "ambiguous")]


def test_gone_disables_the_destination_and_loses_nothing(database, add_webhook, relayed):
    with Receiver(status(410, b"closed for good")) as receiver:
        add_webhook(receiver, max_in_flight=1)
        first, *_ = relayed({}, {}, {})
        with relay_process(database.dsn), database.connect() as connection:
            state = "select state::text, state_reason from outbox.destinations"
            wait_until(lambda: connection.execute(state).fetchone()[0] == "disabled", "the destination is disabled")
            assert "answered 410 (gone)" in connection.execute(state).fetchone()[1]
            wait_until(
                lambda: connection.execute("select count(*) from outbox.dead_letters").fetchone()[0] == 1, "one is dead"
            )
            assert len(open_deliveries(connection)) == 2
        assert len(receiver.requests) == 1
    assert history(database, first)[0][:3] == ("dead", "http_410", 410)


def test_retry_after_holds_the_whole_destination(database, add_webhook, relayed):
    with Receiver(status(429, retry_after="3600"), status(200)) as receiver:
        add_webhook(receiver, max_in_flight=1)
        relayed({}, {}, {})
        with relay_process(database.dsn), database.connect() as connection:
            held = "select extract(epoch from held_until - clock_timestamp())::float8 from outbox.destinations"
            seconds = wait_until(lambda: connection.execute(held).fetchone()[0], "the destination is held")
            assert 3500 < seconds <= 3600
            assert len(open_deliveries(connection)) == 3
        assert len(receiver.requests) == 1


def test_w03_redirect_dies_after_its_tries_and_the_target_never_hears_of_it(database, add_webhook, relayed):
    with (
        Receiver(status(200)) as target,
        Receiver(status(302, location=target.url("/login?token=SECRET3"))) as receiver,
    ):
        add_webhook(receiver, max_attempts=2)
        relayed({})
        with relay_process(database.dsn):
            rows = wait_for_attempts(database, 2)
        assert target.connections == 0
    assert [row[:3] for row in rows] == [
        ("retry", "redirect_not_followed", 302),
        ("dead", "redirect_not_followed", 302),
    ]
    assert "set the final URL" in rows[0][4]
    assert "SECRET" not in repr(rows)


def test_w04_private_address_is_dead_at_once_and_nothing_connects(database, add_webhook, relayed):
    with Receiver(status(200)) as receiver:
        add_webhook(receiver, settings={"allow_networks": []})
        relayed({})
        with relay_process(database.dsn):
            (row,) = wait_for_attempts(database, 1)
        assert receiver.connections == 0
    assert row[:4] == ("dead", "address_refused", None, "not_sent")
    assert 'allow with allow_networks = ["127.0.0.1/32"]' in row[4]


def test_answers_the_database_cannot_store_are_stored_cleaned(database, add_webhook, relayed):
    bodies = [b"a\0b\xff", b"\x1b[31m" + b"\xc3\xa9" * 9000, b"\xed\xa0\x80", "\N{PILE OF POO}".encode() * 4000]
    scripts = [status(code, body) for body in bodies for code in (200,)]
    with Receiver(*scripts, raw(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n\0\0\0\0\0")) as receiver:
        add_webhook(receiver)
        relayed({}, {}, {}, {}, {})
        with relay_process(database.dsn):
            rows = wait_for_attempts(database, 5)
    assert [row[0] for row in rows] == ["delivered"] * 5


def test_reset_and_disconnect_are_ambiguous_in_the_history(database, add_webhook, relayed):
    with Receiver(reset(), closing(), status(200)) as receiver:
        add_webhook(receiver)
        relayed({})
        with relay_process(database.dsn):
            rows = wait_for_attempts(database, 3)
    assert [row[:2] for row in rows] == [("retry", "disconnected"), ("retry", "disconnected"), ("delivered", None)]
    assert [row[3] for row in rows[:2]] == ["ambiguous", "ambiguous"]


def test_w12_no_secret_in_rows_and_output_of_a_relay(database, add_webhook, relayed):
    settings = {
        "secret": "whsec_SECRET5SECRET5SECRET5SECRET5abcd",
        "headers": {"authorization": "Bearer SECRET4"},
    }

    async def echo(turn):
        await status(500, turn.request.head)(turn)

    with Receiver(echo) as receiver:
        settings["url"] = receiver.url("/services/SECRET2?token=SECRET3")
        add_webhook(receiver, settings=settings, max_attempts=2)
        relayed({})
        with relay_process(database.dsn, "--log-level", "debug", "--debug") as relay:
            rows = wait_for_attempts(database, 2)
            shown_by_ps = Path(f"/proc/{relay.process.pid}/cmdline").read_text()
            relay.stop()
        assert "SECRET" not in repr(rows)
        assert "relays" in shown_by_ps
        assert "SECRET" not in shown_by_ps
        assert "SECRET" not in relay.output
        assert f"127.0.0.1:{receiver.port}" in rows[0][4]
