"""`outbox destinations …` as an operator uses it."""

from __future__ import annotations

import pytest

from outbox import destinations
from outbox.errors import DestinationChanged
from tests.commands import outbox
from tests.queues import add_destination, open_deliveries, record
from tests.receivers import Receiver, status

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
WEBHOOK = ("--sink", "webhook", "--events", "order.*", "--set", "url=https://shop.example/hooks")


def add(database, *options, name="shop"):
    return outbox("destinations", "add", name, *options, dsn=database.dsn)


def show(database, name="shop"):
    return outbox("destinations", "show", name, "--json", dsn=database.dsn).json


@pytest.fixture
def loopback():
    """Options of a webhook destination on a loopback receiver."""
    return lambda receiver: (
        *("--sink", "webhook", "--events", "*", "--set", f"url={receiver.url()}", "--set", "allow_http=true"),
        *("--set", 'allow_networks=["127.0.0.0/8"]', "--set", f"secret={SECRET}"),
    )


def test_what_is_added_is_shown_and_listed(database):
    done = add(database, *WEBHOOK, "--set", "secret=env:SHOP_SECRET", "--policy", 'schedule=["5s","5m"]')
    assert (done.code, done.stdout) == (0, ""), done.output
    shown = show(database)
    assert (shown["sink"], shown["events"], shown["state"]) == ("webhook", ["order.*"], "active")
    assert shown["policy"] == {"schedule": ["5s", "5m"]}
    assert shown["settings"]["secret"] == "env:SHOP_SECRET"
    listed = outbox("destinations", "list", "--json", dsn=database.dsn).json
    assert [one["name"] for one in listed] == ["shop"]
    assert "shop" in outbox("destinations", "list", dsn=database.dsn).stdout


def test_a_repeated_key_is_a_list_and_an_empty_value_removes(database):
    add(database, *WEBHOOK, "--set", "secret=env:A", "--set", "secret=env:B", "--set", 'headers={"x-a": "env:X"}')
    assert show(database)["settings"]["secret"] == ["env:A", "env:B"]
    assert outbox("destinations", "set", "shop", "--set", "headers=", dsn=database.dsn).code == 0
    assert "headers" not in show(database)["settings"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--sink", "pigeon"), "no sink 'pigeon' is installed here; known: email, handler, webhook"),
        (("--sink", "webhook", "--set", "url=ftp://x"), "url"),
        (("--sink", "webhook", "--set", "url"), "write --set KEY=VALUE"),
        (("--sink", "handler", "--policy", "max_attempts=zero"), "policy.max_attempts"),
        (("--sink", "handler", "--policy", "retries=3"), "policy has no setting 'retries'"),
        (("--sink", "handler", "--events", "order."), "event pattern 'order.': write *, order.* or order.paid"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_remedy_and_stores_nothing(database, options, says):
    refused = add(database, *options)
    assert refused.code == 2
    assert says in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    assert outbox("destinations", "list", "--json", dsn=database.dsn).json == []


def test_a_taken_or_unknown_name_is_said(database):
    add(database, "--sink", "handler")
    assert "destination 'shop' exists" in add(database, "--sink", "handler").stderr
    unknown = outbox("destinations", "show", "shoop", dsn=database.dsn)
    assert (unknown.code, unknown.stderr) == (2, "outbox: no destination 'shoop'; known: shop\n")


def test_w12_no_inline_secret_or_url_token_is_shown(database):
    url = "https://u:SECRET1@shop.example/services/SECRET2?token=SECRET3"
    with database.connect() as connection:
        settings = {"url": url, "headers": {"authorization": "Bearer SECRET4"}, "secret": "whsec_SECRET5"}
        add_destination(connection, sink="webhook", settings=settings)
        add_destination(connection, "mail", sink="email", settings={"host": "mx.example", "password": "SECRET7"})
        add_destination(connection, "other", sink="pigeon", settings={"token": "SECRET6", "where": url})
    for command in (("list",), ("list", "--json"), *(("show", n) for n in ("shop", "mail", "other"))):
        shown = outbox("destinations", *command, dsn=database.dsn)
        assert shown.code == 0, shown.output
        assert "SECRET" not in shown.output
    assert "shop.example" in outbox("destinations", "show", "shop", dsn=database.dsn).stdout


def test_pausing_says_who_and_why_and_resuming_makes_due_again_in_order(database):
    with database.connect() as connection:
        add_destination(connection, sink="handler")
        ids = [record(connection) for _ in range(5)]
        before = {row[1]: row[7] for row in open_deliveries(connection)}
        paused = outbox("destinations", "pause", "shop", "--reason", "their migration", "--by", "ada", dsn=database.dsn)
        assert paused.code == 0
        shown = show(database)
        assert (shown["state"], shown["state_reason"]) == ("paused", "their migration (by ada)")
        status_now = outbox("status", "--json", dsn=database.dsn).json
        assert status_now["totals"]["held"] == 5
        why = outbox("status", ids[0], "--json", dsn=database.dsn).json["deliveries"][0]
        assert why["state"] == "held"
        assert "paused since" in why["why"]
        assert "their migration (by ada)" in why["why"]
        resumed = outbox("destinations", "resume", "shop", dsn=database.dsn)
        assert "5 held deliveries are due again" in resumed.stderr
        after = sorted(open_deliveries(connection), key=lambda row: row[7])
        assert [row[1] for row in after] == ids
        assert all(row[7] > before[row[1]] for row in after), "ahead of every low-water mark"
        assert show(database)["state_reason"] is None
        assert [(past["former_state"], past["state"], past["reason"]) for past in show(database)["transitions"]] == [
            ("paused", "active", None),
            ("active", "paused", "their migration (by ada)"),
        ]
        assert (
            "active → paused: their migration (by ada)"
            in outbox("destinations", "show", "shop", dsn=database.dsn).stdout
        )


def test_two_changes_at_once_do_not_undo_each_other(database):
    with database.connect() as connection:
        add_destination(connection, sink="handler")
        seen = destinations.find_destination(connection, "shop")
        destinations.change_destination(connection, "shop", policy={"max_attempts": 3})
        with pytest.raises(DestinationChanged, match="look at it and run this again"):
            destinations.change_settings(connection, seen, {})
        assert destinations.find_destination(connection, "shop").policy == {"max_attempts": 3}


def test_a_removed_name_is_free_again_and_removal_asks(database):
    add(database, "--sink", "handler")
    unasked = outbox("destinations", "remove", "shop", dsn=database.dsn)
    assert (unasked.code, unasked.stderr) == (2, "outbox: nobody to ask here; add --yes to remove destination shop\n")
    assert outbox("destinations", "remove", "shop", "--yes", dsn=database.dsn).code == 0
    assert outbox("destinations", "list", "--json", dsn=database.dsn).json == []
    assert add(database, "--sink", "handler").code == 0


def test_testing_shows_each_step_and_a_line_to_repeat_it(database, loopback):
    with Receiver(status(200, b"thanks")) as receiver:
        add(database, *loopback(receiver))
        done = outbox("destinations", "test", "shop", "--json", dsn=database.dsn)
        assert done.code == 0, done.output
        assert [step["name"] for step in done.json["steps"]] == ["settings", "resolve", "guard", "connect", "event"]
        assert done.json["curl"].startswith("curl ")
        assert SECRET not in done.output
        [request] = receiver.wait_for(1)
        assert request.header("webhook-signature").startswith("v1,")


def test_testing_stops_at_the_first_failure_with_exit_code_1(database, loopback):
    with Receiver(status(401, b"who are you")) as receiver:
        add(database, *loopback(receiver))
        done = outbox("destinations", "test", "shop", dsn=database.dsn)
        assert done.code == 1
        assert "who are you" in done.stdout
        assert "failed" in done.stdout


def test_a_sink_without_a_test_says_what_to_do_instead(database):
    add(database, "--sink", "handler")
    refused = outbox("destinations", "test", "shop", dsn=database.dsn)
    assert refused.code == 2
    assert "outbox record outbox.test --destination shop" in refused.stderr


def test_rotating_prints_the_new_secret_once_and_signs_with_both(database, loopback):
    with Receiver() as receiver:
        add(database, *loopback(receiver))
        rotated = outbox("destinations", "rotate-secret", "shop", "--grace", "2h", dsn=database.dsn)
        assert rotated.code == 0, rotated.output
        assert rotated.stdout.startswith("whsec_")
        assert "old ones for 2h more" in rotated.stderr
        outbox("destinations", "test", "shop", dsn=database.dsn)
        [request] = receiver.wait_for(1)
        assert request.header("webhook-signature").count("v1,") == 2
        assert rotated.stdout.strip() not in outbox("destinations", "show", "shop", dsn=database.dsn).output


def test_a_new_secret_is_not_taken_from_the_command_line(database, loopback):
    with Receiver() as receiver:
        add(database, *loopback(receiver))
        refused = outbox("destinations", "rotate-secret", "shop", "--secret", SECRET, dsn=database.dsn)
        assert refused.code == 2
        assert "others could read it" in refused.stderr
        given = outbox(
            "destinations", "rotate-secret", "shop", "--secret", "-", dsn=database.dsn, stdin="whsec_" + "QUJD" * 10
        )
        assert (given.code, given.stdout) == (0, ""), given.output
        assert outbox("destinations", "rotate-secret", "shop", "--secret", "env:NEW", dsn=database.dsn).code == 0, (
            "a reference is not resolved here"
        )
        assert show(database)["settings"]["secret"] == "env:NEW"
