"""Destinations whose every attempt fails for days, too few to trip them: disabled from what the database remembers."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

import pytest

from outbox.status import overview
from relays.janitor import Janitor
from tests.queues import add_destination, count, record


@dataclass
class Tried:
    """Attempts of one delivery, so many days ago."""

    days: float
    outcome: str = "retry"
    status: int | None = 500
    reason: str = "http_500"
    detail: str | None = None
    charged: bool = True


@pytest.fixture
def connection(database):
    with database.connect() as connection:
        add_destination(connection, "shop")
        connection.execute("alter table outbox.destinations disable trigger destinations_touch")
        connection.execute("update outbox.destinations set state_changed_at = now() - interval '30 days'")
        connection.execute("alter table outbox.destinations enable trigger destinations_touch")
        yield connection


def history(connection, *attempts: Tried) -> None:
    """Write a past of one event: as settling writes it, and as `outbox prune` compacts it."""
    event_id = record(connection)
    for number, tried in enumerate(attempts, 1):
        parameters = {**vars(tried), "event_id": event_id, "number": number}
        connection.execute(
            "insert into outbox.attempts"
            " (delivery_id, event_id, destination_id, attempt, started_at, outcome, reason, status, detail)"
            " select d.id, d.event_id, d.destination_id, %(number)s, now() - %(days)s * interval '1 day',"
            " %(outcome)s::outbox.outcome, %(reason)s, %(status)s, %(detail)s"
            " from outbox.deliveries d where d.event_id = %(event_id)s",
            parameters,
        )
        connection.execute(
            "insert into outbox.outcome_counts (destination_id, minute, delivered, retried, died)"
            " select 1, date_trunc('minute', now() - %(days)s * interval '1 day'),"
            " (%(outcome)s = 'delivered')::integer, (%(outcome)s = 'retry')::integer, (%(outcome)s = 'dead')::integer",
            parameters,
        )
        connection.execute(
            "update outbox.deliveries set attempt = attempt + %(charged)s::integer where event_id = %(event_id)s",
            {**parameters, "charged": int(tried.charged)},
        )


def failures(*days: float, **values) -> list[Tried]:
    return [Tried(each, **values) for each in days]


WEEK = (5.5, 5.4, 4.0, 3.0, 2.0)


def state(connection) -> tuple[str, str | None]:
    return connection.execute("select state::text, state_reason from outbox.destinations").fetchone()


def upkeep(database) -> None:
    assert asyncio.run(Janitor(database.dsn, 1).round())


def test_nothing_delivered_for_five_days_disables_and_tells_operators(database, connection, caplog):
    history(connection, *failures(*WEEK))
    history(connection, *failures(*WEEK))
    upkeep(database)
    found, reason = state(connection)
    assert found == "disabled"
    assert reason.startswith("all 10 attempts of 5.")
    assert reason.endswith("d failed; resume it")
    [problem] = [each for each in overview(connection)["problems"] if each["code"] == "destination_disabled"]
    assert reason in problem["message"]
    assert problem["remedy"] == "outbox destinations resume shop"
    kept = connection.execute("select former_state::text, state::text, reason from outbox.destination_transitions")
    assert kept.fetchall() == [("active", "disabled", reason)]
    assert f"destination shop is disabled: {reason}" in caplog.text
    assert count(connection, "deliveries") == 2, "held, not lost"


def test_it_is_disabled_once_and_resuming_starts_anew(database, connection):
    history(connection, *failures(*WEEK, *WEEK))
    history(connection, *failures(*WEEK))
    upkeep(database)
    connection.execute("update outbox.destinations set state = 'active', state_reason = null")
    upkeep(database)
    assert state(connection) == ("active", None)


PASTS = {
    "one delivery in between": [[*failures(*WEEK), Tried(1.0, "delivered", 200)], failures(*WEEK)],
    "a delivery five days ago": [[*failures(*WEEK), Tried(4.9, "delivered", 200)], failures(4, 3, 2, 1, 0.5)],
    "not yet five days": [failures(4.9, 4, 3, 2, 1), failures(4.9, 4, 3, 2, 1)],
    "too few attempts": [failures(5.5, 3), failures(5.4, 2)],
    "one event alone": [failures(*WEEK, *WEEK)],
    "throttled": [failures(*WEEK, status=429, reason="http_429"), failures(*WEEK, status=429, reason="http_429")],
    "refused for good": [
        failures(day, outcome="dead", status=413, reason="http_413", detail="permanent") for day in (*WEEK, *WEEK)
    ],
    "not charged": [
        failures(*WEEK, reason="setting_missing", charged=False),
        failures(*WEEK, reason="setting_missing", charged=False),
    ],
}  # fmt: skip


@pytest.mark.parametrize("past", PASTS)
def test_what_does_not_show_that_the_destination_fails_leaves_it_active(past, database, connection):
    for attempts in PASTS[past]:
        history(connection, *attempts)
    upkeep(database)
    assert state(connection) == ("active", None)


def test_given_up_at_the_first_try_counts_too(database, connection):
    for day in (*WEEK, *WEEK):
        history(connection, *failures(day, outcome="dead", detail="gave up after 1 of 1 tries"))
    upkeep(database)
    assert state(connection)[0] == "disabled"


def test_what_is_paused_stays_paused(database, connection):
    history(connection, *failures(*WEEK))
    history(connection, *failures(*WEEK))
    connection.execute("alter table outbox.destinations disable trigger destinations_touch")
    connection.execute("update outbox.destinations set state = 'paused', state_reason = 'upgrade'")
    upkeep(database)
    assert state(connection) == ("paused", "upgrade")


def test_counts_merged_by_the_upkeep_tell_the_same(database, connection):
    history(connection, *failures(*WEEK))
    history(connection, *failures(*WEEK))
    connection.execute("select outbox.compact_outcome_counts('30 days')")
    upkeep(database)
    assert state(connection)[0] == "disabled"


def test_the_log_warns_a_day_after_the_first_failure_and_once(database, connection, caplog):
    caplog.set_level(logging.WARNING)
    history(connection, *failures(1.5, 0.5))
    janitor = Janitor(database.dsn, 1)
    for _ in range(3):
        assert asyncio.run(janitor.round())
    said = [each.message for each in caplog.records if each.name == "relays.failing"]
    assert len(said) == 1
    assert said[0].startswith("destination shop has delivered nothing for 1.5")
    assert said[0].endswith("d, failures: 2; it is disabled after 5d")
    assert state(connection) == ("active", None)
