"""Dead letters and replays against real relays: what an operator does the morning after (R04, R05)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.commands import outbox
from tests.processes import relay_process
from tests.queues import add_destination, attempts, count, record
from tests.receivers import Receiver, status
from tests.waiting import wait_until

SETTINGS = {"allow_http": True, "allow_networks": ["127.0.0.0/8"], "secret": "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"}
POLICY = {"schedule": ["0.05s"], "max_attempts": 1, "timeout": "5s", "max_in_flight": 20}


@pytest.fixture
def connection(database):
    with database.connect() as connection:
        yield connection


def add_webhook(connection, receiver, settings=None, **policy) -> None:
    settings = {"url": receiver.url(), **SETTINGS, **(settings or {})}
    add_destination(connection, "shop", sink="webhook", settings=settings, policy={**POLICY, **policy})


def bury(connection, number: int, *, reason="http_503") -> None:
    """Let `number` events die without waiting for it."""
    connection.execute(
        "select outbox.record_event('order.paid', jsonb_build_object('n', n)) from generate_series(1, %s) n", [number]
    )
    connection.execute(
        "with dead as (delete from outbox.deliveries returning *) insert into outbox.dead_letters (delivery_id,"
        " event_id, destination_id, key, attempt, interruptions, reason, recorded_at, died_at)"
        " select id, event_id, destination_id, key, 5, 0, %s, recorded_at, clock_timestamp() from dead",
        [reason],
    )


@pytest.mark.parametrize("code", [503, 401])
def test_r04_what_died_of_an_outage_is_brought_back_by_one_command(database, connection, code):
    total = 60
    with Receiver(status(code)) as down:
        add_webhook(connection, down, {"dead_on": [code]})  # else the breaker holds most of them, and nothing dies
        ids = [record(connection, payload={"n": n}) for n in range(total)]
        with relay_process(database.dsn) as relay:
            wait_until(lambda: count(connection, "dead_letters") == total, "all dead", 60)
            assert relay.stop() == 0
    listed = outbox("dead", "list", "--json", "--destination", "shop", dsn=database.dsn).json
    assert listed["total"] == total
    assert {letter["reason"] for letter in listed["dead_letters"]} == {f"http_{code}"}
    with Receiver() as mended:
        outbox("destinations", "set", "shop", "--set", f"url={mended.url()}", dsn=database.dsn)
        outbox("destinations", "resume", "shop", dsn=database.dsn)
        refused = outbox("dead", "redrive", "--destination", "shop", dsn=database.dsn)
        assert (refused.code, f"add --yes to redrive {total} deliveries" in refused.stderr) == (2, True)
        with relay_process(database.dsn) as relay:
            relay.started()
            done = outbox(
                "dead", "redrive", "--destination", "shop", "--canary", "10", "--yes", "--by", "ada", dsn=database.dsn
            )
            assert (done.code, f"redrove {total} dead letters" in done.stderr) == (0, True), done.output
            wait_until(lambda: count(connection, "deliveries") == 0, "all delivered", 60)
            assert relay.stop() == 0
        assert sorted(request.header("webhook-id") for request in mended.requests) == sorted(ids)
    assert [(row[1], row[2]) for row in attempts(connection, ids[0])] == [
        (1, "dead"),
        (1, "redriven"),
        (1, "delivered"),
    ]
    story = outbox("status", ids[0], "--json", dsn=database.dsn).json["deliveries"][0]
    assert [attempt["detail"] for attempt in story["attempts"] if attempt["outcome"] == "redriven"] == ["by ada"]


def test_r04_filters_take_what_they_say(database, connection):
    add_destination(connection, "a")
    bury(connection, 3, reason="http_503")
    bury(connection, 2, reason="timeout")
    moment = connection.execute("select max(died_at) from outbox.dead_letters where reason = 'http_503'").fetchone()[0]

    def matches(*filters) -> int:
        return outbox("dead", "redrive", *filters, "--dry-run", "--json", dsn=database.dsn).json["matched"]

    assert matches("--destination", "a") == 5
    unknown = outbox("dead", "redrive", "--destination", "b", "--yes", dsn=database.dsn)
    assert (unknown.code, "no destination 'b'; known: a" in unknown.stderr) == (2, True), "a slip is no empty result"
    assert matches("--type", "order.*") == 5
    assert matches("--type", "user.*") == 0
    assert matches("--reason", "timeout") == 2
    assert matches("--until", moment.isoformat()) == 2
    assert matches("--since", moment.isoformat()) == 3
    assert count(connection, "dead_letters") == 5


def test_r04_a_time_without_offset_or_no_filter_is_a_usage_error(database):
    assert outbox("dead", "redrive", "--since", "2026-01-01T00:00:00", "--yes", dsn=database.dsn).code == 2
    bare = outbox("dead", "redrive", "--yes", dsn=database.dsn)
    assert (bare.code, "give a filter" in bare.stderr) == (2, True)


def test_a_canary_that_fails_again_stops_the_rest(database, connection):
    with Receiver(status(503)) as down, relay_process(database.dsn) as relay:
        add_webhook(connection, down)
        bury(connection, 50)
        relay.started()
        done = outbox("dead", "redrive", "--destination", "shop", "--canary", "5", "--yes", dsn=database.dsn)
        assert done.code == 1
        assert "of the first 5 failed again; mend the cause, then run it again" in done.stderr
        wait_until(lambda: count(connection, "dead_letters") == 50, "the canaries died again")
        reasons = {row[3] for row in attempts(connection) if row[2] == "dead"}
        assert reasons == {"http_503"}
    assert len(down.requests) == 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_r05_an_interrupted_redrive_loses_nothing_and_the_next_run_completes(database, connection, number):
    total = 300
    with Receiver() as receiver:
        add_webhook(connection, receiver)
        bury(connection, total)
        environment = {**os.environ, "OUTBOX_DSN": database.dsn}  # noqa: TID251 - handed on
        command = [sys.executable, "-m", "outbox", "dead", "redrive", "--destination", "shop", "--yes", "--rate", "20"]
        with relay_process(database.dsn) as relay:
            relay.started()
            running = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
            wait_until(lambda: count(connection, "dead_letters") < total - 50, "three batches are taken")
            running.send_signal(number)
            _, said = running.communicate(timeout=60)
            assert running.returncode != 0
            assert (number == signal.SIGKILL) is (b"run it again to go on" not in said)
            left = count(connection, "dead_letters")
            assert 0 < left < total
            done = outbox("dead", "redrive", "--destination", "shop", "--yes", dsn=database.dsn)
            assert f"redrove {left} dead letters" in done.stderr
            wait_until(lambda: count(connection, "deliveries") == 0, "all delivered", 60)
            assert relay.stop() == 0
        sent = [request.header("webhook-id") for request in receiver.requests]
        assert len(sent) == len(set(sent)) == total


def test_r05_a_second_death_shows_the_new_reason_and_keeps_the_first(database, connection):
    with Receiver(status(500), status(404)) as receiver:
        add_webhook(connection, receiver, max_in_flight=1)
        event_id = record(connection)
        with relay_process(database.dsn) as relay:
            wait_until(lambda: count(connection, "dead_letters") == 1, "dead")
            outbox("dead", "redrive", "--event", event_id, "--yes", "--by", "ada", dsn=database.dsn)
            wait_until(lambda: len(receiver.requests) == 2 and count(connection, "dead_letters") == 1, "dead again")
            assert relay.stop() == 0
    [letter] = outbox("dead", "show", event_id, "--json", dsn=database.dsn).json
    assert (letter["reason"], letter["attempt"]) == ("http_404", 1)
    assert [(row[2], row[3]) for row in attempts(connection, event_id)] == [
        ("dead", "http_500"),
        ("redriven", "http_500"),
        ("dead", "http_404"),
    ]


def test_redriven_keys_keep_their_order(database, connection):
    with Receiver() as receiver:
        add_webhook(connection, receiver)
        for n in range(60):
            record(connection, payload={"n": n}, key=f"k{n % 3}")
        connection.execute(
            "with dead as (delete from outbox.deliveries returning *) insert into outbox.dead_letters (delivery_id,"
            " event_id, destination_id, key, attempt, interruptions, reason, recorded_at, died_at)"
            " select id, event_id, destination_id, key, 5, 0, 'http_503', recorded_at, clock_timestamp() from dead"
        )
        with relay_process(database.dsn) as relay:
            relay.started()
            outbox("dead", "redrive", "--destination", "shop", "--yes", "--rate", "20", dsn=database.dsn)
            wait_until(lambda: count(connection, "deliveries") == 0, "all delivered", 60)
            assert relay.stop() == 0
        key_of = dict(connection.execute("select id::text, key from outbox.events").fetchall())
        sent = [request.header("webhook-id") for request in receiver.requests]
        for key in ("k0", "k1", "k2"):
            mine = [event_id for event_id in sent if key_of[event_id] == key]
            assert mine == sorted(mine)
            assert len(mine) == 20


def test_a_replay_sends_the_same_identity_again_and_says_who(database, connection):
    with Receiver() as receiver:
        add_webhook(connection, receiver)
        ids = [record(connection, payload={"n": n}) for n in range(5)]
        with relay_process(database.dsn) as relay:
            wait_until(lambda: count(connection, "attempts") == 5, "delivered")
            done = outbox("replay", "--type", "order.*", "--yes", "--by", "ada", dsn=database.dsn)
            assert (done.code, "set 5 deliveries going again" in done.stderr) == (0, True), done.output
            assert "go on with --until" in done.stderr
            wait_until(lambda: len(receiver.requests) == 10, "delivered again")
            wait_until(lambda: count(connection, "deliveries") == 0, "settled")
            assert relay.stop() == 0
        first, second = receiver.requests[:5], receiver.requests[5:]
        assert sorted(r.header("webhook-id") for r in second) == sorted(ids)
        assert {r.header("webhook-id"): r.body for r in first} == {r.header("webhook-id"): r.body for r in second}
    assert [row[2] for row in attempts(connection, ids[0])] == ["delivered", "replayed", "delivered"]


def test_lists_say_when_there_is_nothing(database):
    assert outbox("dead", "list", dsn=database.dsn).stdout == "no dead letters\n"
    assert outbox("dead", "list", "--json", dsn=database.dsn).json == {"total": 0, "dead_letters": []}
    nothing = outbox("dead", "redrive", "--type", "order.*", "--yes", dsn=database.dsn)
    assert (nothing.code, nothing.stderr) == (0, "nothing to redrive: no delivery matches\n")
    nothing = outbox("replay", "--type", "order.*", "--yes", "--json", dsn=database.dsn)
    assert (nothing.code, nothing.json["matched"], nothing.json["done"]) == (0, 0, 0)
    for command in (("dead", "list"), ("dead", "discard", "--yes"), ("replay", "--yes")):
        unknown = outbox(*command, "--destination", "shop", dsn=database.dsn)
        assert (unknown.code, "no destination 'shop'; known: none yet" in unknown.stderr) == (2, True), command
    assert outbox("dead", "show", "01990000-0000-7000-8000-000000000000", dsn=database.dsn).code == 1


def test_bulk_work_tells_machines_what_it_did_in_one_document(database, connection):
    add_destination(connection)
    bury(connection, 7)
    shown = outbox("dead", "redrive", "--destination", "shop", "--dry-run", "--json", dsn=database.dsn).json
    assert (shown["matched"], shown["done"], shown["dry_run"], len(shown["samples"])) == (7, 0, True, 5)
    done = outbox("dead", "redrive", "--destination", "shop", "--limit", "3", "--yes", "--json", dsn=database.dsn).json
    assert (done["matched"], done["done"], done["dry_run"], done["stopped"]) == (7, 3, False, None)
    gone = outbox("dead", "discard", "--destination", "shop", "--yes", "--json", dsn=database.dsn).json
    assert (gone["matched"], gone["done"]) == (4, 4)


def test_nobody_waits_for_canaries_that_nobody_would_try(database, connection):
    add_destination(connection)
    bury(connection, 7)
    redrive = ("dead", "redrive", "--destination", "shop", "--yes")
    unserved = outbox(*redrive, "--canary", "5", dsn=database.dsn)
    assert (unserved.code, "no relay is alive; start outbox-relay" in unserved.stderr) == (2, True)
    outbox("destinations", "pause", "shop", "--by", "ada", dsn=database.dsn)
    paused = outbox(*redrive, "--canary", "5", dsn=database.dsn)
    assert paused.code == 2
    assert "destination shop is paused (paused (by ada)); outbox destinations resume shop" in paused.stderr
    assert count(connection, "dead_letters") == 7
    assert "not tried for now: destination shop is paused" in outbox(*redrive, dsn=database.dsn).stderr
    assert count(connection, "deliveries") == 7


def test_what_a_removed_destination_buried_is_left_out_and_said(database, connection):
    add_destination(connection)
    bury(connection, 3)
    outbox("destinations", "remove", "shop", "--yes", dsn=database.dsn)
    done = outbox("dead", "redrive", "--destination", "shop", "--yes", dsn=database.dsn)
    assert done.code == 0
    assert "left out, since their destination is removed: 3" in done.stderr
    assert count(connection, "dead_letters") == 3


@pytest.mark.parametrize("text", ["yesterday", "2026-12-01", "2026-12-01T10:00"])
def test_a_time_that_is_none_is_refused_with_an_example(text):
    done = outbox("dead", "redrive", "--since", text, "--yes", dsn="postgresql://nowhere/")
    assert (done.code, len(done.stderr.splitlines())) == (2, 1)
    assert "write 2026-12-01T09:30:00+00:00" in done.stderr


def test_w13_a_paused_destination_keeps_everything_and_uses_no_attempt(database, connection):
    with Receiver() as receiver:
        add_webhook(connection, receiver)
        before = [record(connection) for _ in range(50)]
        outbox("destinations", "pause", "shop", dsn=database.dsn)
        with relay_process(database.dsn) as relay:
            relay.started()
            during = [record(connection) for _ in range(50)]
            found = outbox("status", "--json", dsn=database.dsn).json
            assert (found["totals"]["held"], found["totals"]["waiting"]) == (100, 0)
            assert "destination_paused" in [problem["code"] for problem in found["problems"]]
            assert receiver.requests == []
            outbox("destinations", "resume", "shop", dsn=database.dsn)
            wait_until(lambda: count(connection, "deliveries") == 0, "all delivered", 60)
            assert relay.stop() == 0
        assert sorted(r.header("webhook-id") for r in receiver.requests) == sorted(before + during)
    assert {row[1] for row in attempts(connection)} == {1}
