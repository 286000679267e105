"""Destination health in the relay's core: trips and probes, rates, and shares of the fleet (held-not-lost)."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time

from outbox.destinations import resume_destination
from outbox.transitions import list_transitions
from relays.serving import Serving
from relays.sessions import Session
from relays.settings import RelaySettings
from tests.processes import relay_process
from tests.queues import count, record
from tests.receivers import Receiver, status
from tests.waiting import wait_until


def state(connection) -> str:
    return connection.execute("select state::text from outbox.destinations where name = 'shop'").fetchone()[0]


def test_a_destination_that_fails_trips_holds_and_goes_on_after_one_probe(database, add_webhook):
    mended = threading.Event()

    async def answer(turn):
        await status(200 if mended.is_set() else 500)(turn)

    with Receiver(answer) as receiver, database.connect() as connection:
        add_webhook(receiver, schedule=["0.1s"], max_attempts=50, max_in_flight=5)
        with relay_process(database.dsn) as relay:
            relay.started()
            for _ in range(40):
                record(connection)
            wait_until(lambda: state(connection) == "tripped", "the trip")
            relay.wait_for("destination shop is tripped")
            seen = len(receiver.requests)
            assert seen < 10 + 5, "a trip stops the sending"
            charged = connection.execute("select sum(attempt) from outbox.deliveries").fetchone()[0]
            assert charged <= seen, "held deliveries use up no attempt"
            mended.set()
            connection.execute("update outbox.destinations set held_until = now()")
            relay.wait_for("destination shop is active again")
            wait_until(lambda: count(connection, "deliveries") == 0, "everything held is delivered", 40)
            assert state(connection) == "active"
            assert relay.stop() == 0
        assert count(connection, "dead_letters") == 0


def test_an_attempt_begun_before_the_trip_is_no_probe(database, add_webhook):
    straggler_may_fail = threading.Event()
    arrived = itertools.count()

    async def answer(turn):
        if next(arrived) == 0:
            await asyncio.to_thread(straggler_may_fail.wait, 60)
        await status(500)(turn)

    with Receiver(answer) as receiver, database.connect() as connection:
        add_webhook(receiver, schedule=["1h"], max_in_flight=2, timeout="60s")
        for _ in range(20):
            record(connection)
        with relay_process(database.dsn, "--lease", "90s") as relay:
            relay.started()
            wait_until(lambda: state(connection) == "tripped", "the trip")
            tripped = "select state::text, state_reason, held_until from outbox.destinations"
            before = connection.execute(tripped).fetchone()
            settled = count(connection, "attempts")
            straggler_may_fail.set()
            wait_until(lambda: count(connection, "attempts") > settled, "the straggler is settled")
            assert relay.stop() == 0
            assert connection.execute(tripped).fetchone() == before
        assert relay.output.count("is tripped") == 1


def test_a_probe_that_fails_after_five_days_disables_and_a_resume_brings_it_back(database, add_webhook):
    mended = threading.Event()

    async def answer(turn):
        await status(200 if mended.is_set() else 500)(turn)

    with Receiver(answer) as receiver, database.connect() as connection:
        add_webhook(receiver)
        connection.execute(
            "update outbox.destinations set state = 'tripped', state_reason = '10 of 10 attempts failed'"
        )
        connection.execute("alter table outbox.destinations disable trigger destinations_touch")
        connection.execute("update outbox.destinations set state_changed_at = now() - interval '6 days'")
        connection.execute("alter table outbox.destinations enable trigger destinations_touch")
        for _ in range(5):
            record(connection)
        with relay_process(database.dsn) as relay:
            wait_until(lambda: state(connection) == "disabled", "the end of the probes")
            assert len(receiver.requests) == 1
            last = list_transitions(connection, 1)[0]
            assert (last["former_state"], last["state"]) == ("tripped", "disabled")
            assert last["reason"] == "failing for 6d, lately with http_500; resume it"
            mended.set()
            resume_destination(connection, "shop")
            wait_until(lambda: count(connection, "deliveries") == 0, "everything held is delivered")
            assert relay.stop() == 0
        assert count(connection, "dead_letters") == 0


def test_a_410_disables_the_destination_and_holds_the_rest(database, add_webhook):
    with Receiver(status(410)) as receiver, database.connect() as connection:
        add_webhook(receiver, max_in_flight=1)
        for _ in range(5):
            record(connection)
        with relay_process(database.dsn) as relay:
            relay.started()
            wait_until(lambda: state(connection) == "disabled", "the destination is disabled")
            assert relay.stop() == 0
        assert (count(connection, "dead_letters"), count(connection, "deliveries")) == (1, 4)
        assert len(receiver.requests) == 1


def test_retry_after_holds_the_whole_destination(database, add_webhook):
    with Receiver(status(503, retry_after="3600")) as receiver, database.connect() as connection:
        add_webhook(receiver, max_in_flight=1)
        for _ in range(5):
            record(connection)
        with relay_process(database.dsn, "--drain") as relay:
            assert relay.ended() == 0
        assert len(receiver.requests) == 1
        held = connection.execute("select held_until > now() + interval '50 min' from outbox.destinations").fetchone()
        assert held == (True,)


def test_an_overloaded_destination_gets_half_as_many_at_once(database, add_webhook):
    arrived = itertools.count()
    all_there, may_answer = threading.Event(), threading.Event()

    async def answer(turn):
        number = next(arrived)
        if number == 7:
            all_there.set()
        await asyncio.to_thread((all_there if number < 8 else may_answer).wait, 60)
        await status(529 if number < 8 else 200)(turn)

    with Receiver(answer) as receiver, database.connect() as connection:
        add_webhook(receiver, max_in_flight=8, timeout="60s")
        for _ in range(30):
            record(connection)
        with relay_process(database.dsn, "--lease", "90s") as relay:
            receiver.wait_for(8 + 4, 60)
            wait_until(lambda: count(connection, "attempts") == 8, "the refusals are settled")
            time.sleep(0.5)  # more would come in this time, if it were allowed
            assert len(receiver.requests) == 8 + 4
            may_answer.set()
            wait_until(lambda: count(connection, "deliveries") == 0, "all are delivered")
            assert relay.stop() == 0
        assert "is overloaded (http_529): at most 4 in flight here" in relay.output


def test_a_rate_is_kept(database, add_webhook):
    with Receiver() as receiver, database.connect() as connection:
        add_webhook(receiver, rate="10/s", max_in_flight=50)
        for _ in range(45):
            record(connection)
        with relay_process(database.dsn) as relay:
            receiver.wait_for(45)
            relay.stop()
        # a burst of 10, then 10 a second; the first second may pass before the first request is out
        assert receiver.requests[-1].at - receiver.requests[0].at > 2.0


def test_relays_share_what_may_be_in_flight_by_rank(database, add_webhook):
    with Receiver() as receiver, database.connect() as connection:
        add_webhook(receiver, max_in_flight=3)
        ids = [
            connection.execute(
                "insert into outbox.relays (name, host, pid, version, concurrency, serves)"
                " values ('r', 'h', 1, '0', 10, '{\"destinations\": [\"shop\"]}') returning id"
            ).fetchone()[0]
            for _ in range(2)
        ]

        async def rooms():
            found = []
            async with Session(database.dsn, "test") as session:
                for relay_id in ids:
                    serving = Serving(session, RelaySettings(dsn=database.dsn))
                    await serving.refresh()
                    await serving.rank(relay_id)
                    [target] = serving.targets.values()
                    found.append(target.room(100, time.monotonic(), is_alone=True))
                    await serving.close()
            return found

        assert asyncio.run(rooms()) == [2, 1]


def test_pausing_parks_and_resuming_goes_on(database, add_webhook):
    with Receiver() as receiver, database.connect() as connection:
        add_webhook(receiver, timeout="20s")
        with relay_process(database.dsn) as relay:
            relay.started()
            connection.execute("update outbox.destinations set state = 'paused', state_reason = 'upgrade'")
            wait_until(lambda: _is_left_alone(connection, receiver), "the relay has heard of the pause")
            before = len(receiver.requests)
            waiting = count(connection, "deliveries")
            for _ in range(20):
                record(connection)
            assert len(receiver.requests) == before
            connection.execute("update outbox.destinations set state = 'active', state_reason = null")
            receiver.wait_for(before + waiting + 20)
            wait_until(lambda: count(connection, "deliveries") == 0, "all settled")
            assert relay.stop() == 0
        assert count(connection, "attempts") == len(receiver.requests)


def _is_left_alone(connection, receiver) -> bool:
    """Tell whether a delivery recorded now stays where it is for longer than a ring takes."""
    before = len(receiver.requests)
    record(connection)
    time.sleep(0.5)
    return len(receiver.requests) == before
