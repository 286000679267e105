"""A relay process and a mail server: one delivery per recipient, faults of the server hold, kills lose nothing."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.mail_server import MailServer, drop, every, hang, reply
from tests.processes import relay_process
from tests.queues import add_destination, count, open_deliveries, record
from tests.waiting import wait_until

POLICY = {"schedule": ["0.2s"], "max_attempts": 4, "timeout": "3s"}


@pytest.fixture
def connection(database):
    with database.connect() as connection:
        yield connection


def add_mail(connection, server, *, policy=None, **settings) -> int:
    return add_destination(
        connection,
        "mail",
        sink="email",
        settings={"host": "127.0.0.1", "port": server.port, "security": "plain", "from": "s@example.com", **settings},
        policy={**POLICY, **(policy or {})},
    )


def mail(connection, **payload) -> str:
    return record(connection, "mail.receipt", {"to": "ada@example.com", "subject": "s", "text": "t", **payload})


def history(connection, event_id: str) -> list:
    """Return (recipient, outcome, reason) of the attempts of an event, in order."""
    return connection.execute(
        "select recipient, outcome::text, reason from outbox.attempts where event_id = %s order by started_at, attempt",
        [event_id],
    ).fetchall()


def test_each_recipient_has_attempts_and_an_outcome_of_its_own(database, connection):
    answers = {"gone": [reply("550 5.1.1 unknown")], "busy": [reply("450 4.2.0 greylisted"), None]}

    def fault(argument):
        planned = next((faults for name, faults in answers.items() if name in argument), [])
        return planned.pop(0) if planned else None

    with MailServer(RCPT=fault) as server:
        add_mail(connection, server)
        event_id = mail(
            connection, to=["Ada <ada@example.com>", "gone@example.com"], cc="busy@example.com", bcc=["eve@example.com"]
        )
        with relay_process(database.dsn) as relay:
            wait_until(lambda: count(connection, "deliveries") == 0, "all settled")
            assert relay.stop() == 0
        outcomes = history(connection, event_id)
        assert sorted(outcomes) == sorted([
            ("Ada <ada@example.com>", "delivered", None),
            ("gone@example.com", "dead", "smtp_550"),
            ("busy@example.com", "retry", "smtp_450"),
            ("busy@example.com", "delivered", None),
            ("eve@example.com", "delivered", None),
        ])  # fmt: skip
        assert sorted(each.recipients for each in server.mails) == [
            ["ada@example.com"], ["busy@example.com"], ["eve@example.com"],
        ]  # fmt: skip
        assert len({each.content for each in server.mails}) == 1
        dead = connection.execute("select recipient, reason from outbox.dead_letters").fetchall()
        assert dead == [("gone@example.com", "smtp_550")]


def test_a_server_that_greylists_every_new_mailbox_is_not_tripped(database, connection):
    seen = set()

    def greylist(argument):
        is_known = argument in seen
        seen.add(argument)
        return None if is_known else reply("450 4.7.1 greylisted, come back")

    with MailServer(RCPT=greylist) as server:
        add_mail(connection, server, policy={"schedule": ["2s"]})
        for number in range(20):
            mail(connection, to=f"reader-{number}@example.com")
        with relay_process(database.dsn) as relay:
            wait_until(lambda: count(connection, "deliveries") == 0, "all settled")
            assert relay.stop() == 0
        assert len(server.mails) == 20
        assert "tripped" not in relay.output


def test_a_payload_that_is_no_mail_is_one_dead_letter(database, connection):
    with MailServer() as server:
        add_mail(connection, server)
        record(connection, "order.paid", {"amount": 12})
        with relay_process(database.dsn, "--drain") as relay:
            assert relay.ended() == 0
        assert connection.execute("select reason, recipient from outbox.dead_letters").fetchall() == [
            ("invalid_mail", None)
        ]
        assert server.sessions == 0


@pytest.mark.parametrize(
    ("fault", "state"),
    [
        ({"AUTH": every(reply("535 5.7.8 bad credentials"))}, "tripped"),
        ({"greeting": every(reply("554 5.3.2 not now"))}, "tripped"),
        ({"greeting": every(reply("421 4.3.2 later"))}, "active"),
    ],
)
def test_a_fault_of_the_server_holds_the_destination_and_burns_no_attempt(database, connection, fault, state):
    with MailServer(users={"shop": "SECRET7-right"}, **fault) as server:
        add_mail(connection, server, username="shop", password="SECRET7-right")
        for _ in range(20):
            mail(connection)
        with relay_process(database.dsn) as relay:
            wait_until(
                lambda: connection.execute("select held_until > now() from outbox.destinations").fetchone()[0],
                "the hold",
            )
            wait_until(lambda: all(row[5] is None for row in open_deliveries(connection)), "everything settled")
            assert relay.stop() == 0
        rows = open_deliveries(connection)
        assert len(rows) == 20
        assert {row[3] for row in rows} == {0}
        assert connection.execute("select state::text from outbox.destinations").fetchone() == (state,)
        assert server.sessions <= 8
        assert "SECRET7" not in relay.output
        texts = connection.execute("select string_agg(detail, '') from outbox.attempts").fetchone()[0]
        assert "SECRET7" not in texts


def test_a_repeated_session_leaves_a_row_of_its_own(database, connection):
    with MailServer(MAIL=[None, drop(), None]) as server:
        add_mail(connection, server, connections=1)
        mail(connection)
        with relay_process(database.dsn) as relay:
            server.wait_for(1)
            second = mail(connection)
            wait_until(lambda: count(connection, "deliveries") == 0, "all settled")
            assert relay.stop() == 0
        assert {row[1:] for row in history(connection, second)} == {("retry", "disconnected"), ("delivered", None)}
        assert connection.execute("select max(attempt) from outbox.attempts").fetchone() == (1,)


def test_an_ambiguous_end_is_sent_again_or_held_as_the_destination_says(database, connection):
    with MailServer(FINAL=[drop(), None]) as server:
        add_mail(connection, server)
        event_id = mail(connection)
        with relay_process(database.dsn) as relay:
            wait_until(lambda: count(connection, "deliveries") == 0, "the second try")
            assert relay.stop() == 0
        assert [row[1:] for row in history(connection, event_id)] == [("retry", "disconnected"), ("delivered", None)]
        assert len({each.content for each in server.mails}) == 1
        certainty = connection.execute("select certainty::text from outbox.attempts where outcome = 'retry'").fetchone()
        assert certainty == ("ambiguous",)
    with MailServer(FINAL=[drop()]) as server:
        changed = json.dumps({"port": server.port, "on_ambiguous": "hold"})
        connection.execute("update outbox.destinations set settings = settings || %s::jsonb", [changed])
        mail(connection)
        with relay_process(database.dsn) as relay:
            wait_until(lambda: count(connection, "dead_letters") == 1, "the dead letter")
            assert relay.stop() == 0
        assert len(server.mails) == 1
        assert connection.execute("select reason from outbox.dead_letters").fetchone() == ("ambiguous",)


def test_a_relay_that_stops_while_a_mail_is_answered_records_the_answer(database, connection):
    """SIGTERM with no grace, while the server thinks about a complete mail: it is not sent a second time."""
    with MailServer(FINAL=[_late]) as server:
        add_mail(connection, server)
        event_id = mail(connection)
        with relay_process(database.dsn, "--grace", "0s") as relay:
            server.wait_for(1)
            assert relay.stop() == 0
        assert [row[1:] for row in history(connection, event_id)] == [("delivered", None)]
        assert count(connection, "deliveries") == 0
        assert len(server.mails) == 1


async def _late(session) -> None:
    try:
        await asyncio.wait_for(asyncio.Event().wait(), 1.0)
    except TimeoutError:
        await reply("250 2.0.0 late")(session)


def test_c01_a_mail_interrupted_by_kill_is_sent_again_or_held(database, connection):
    with MailServer(FINAL=[hang(), None]) as server:
        add_mail(connection, server)
        event_id = mail(connection)
        with relay_process(database.dsn, "--lease", "5s") as relay:
            server.wait_for(1)
            relay.kill()
        with relay_process(database.dsn, "--lease", "5s", "--poll", "100ms") as relay:
            wait_until(lambda: count(connection, "deliveries") == 0, "the second try")
            assert relay.stop() == 0
        assert [row[1:] for row in history(connection, event_id)] == [
            ("interrupted", "relay_died"),
            ("delivered", None),
        ]
        assert len({each.content for each in server.mails}) == 1
