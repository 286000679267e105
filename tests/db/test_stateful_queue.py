"""Whatever relays and operators do, in whatever order: the tables say what the model says, and so does `status`.

`make test` plays the same few examples each time. For a long random run, a failure of which prints how to repeat it:

    OUTBOX_TEST_EXAMPLES=2000 pytest tests/db/test_stateful_queue.py
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from outbox import destinations
from outbox.dead_letters import discarding, redriving
from outbox.policy import Policy
from outbox.record import record_event
from outbox.replay import find_replayable
from outbox.rows import named_row
from outbox.selection import select_deliveries
from outbox.status import overview, timeline
from relays.claims import Ask, Claims
from relays.clock import ServerClock
from relays.leases import Leases
from relays.results import Delivered, Refused
from relays.sessions import Session
from relays.settlements import Settlements
from relays.sweeps import Sweeps
from relays.targets import START, Target
from tests.examples import EXAMPLES
from tests.model.queue import MAX_ATTEMPTS, Delivery, Place, Queue
from tests.queues import add_destination

if TYPE_CHECKING:
    import psycopg

NAMES = ("plain", "strict")
RESULTS = {
    "delivered": Delivered(204),
    "retry": Refused("http_500"),
    "refused": Refused("http_413", permanent=True),
    "uncharged": Refused("smtp_535", charged=False),
}
POLICY = {"schedule": (3600.0,), "max_attempts": MAX_ATTEMPTS}
LEASE_SECONDS = 3600.0

picks = st.integers(0, 30)
relays = st.sampled_from([1, 2])
names = st.sampled_from(NAMES)
outcomes = st.sampled_from([*RESULTS, "released"])


class QueueMachine(RuleBasedStateMachine):
    """Both sides: the model, and the database through the product's own functions."""

    def __init__(self, connection: psycopg.Connection, session: Session, runner: asyncio.Runner) -> None:
        super().__init__()
        self.connection = connection
        self.session = session
        self.run = runner.run
        self.queue = Queue()
        self.held: dict[int, list] = {1: [], 2: []}
        self.touched: str | None = None
        self.tokens = 0
        for table in ("deliveries", "dead_letters", "attempts", "outcome_counts", "events", "destinations"):
            connection.execute(f"delete from outbox.{table}")  # noqa: S608 - names from above
        for name in NAMES:
            self._add(name)

    # ------------------------------------------------------------------ producers

    @rule(
        to=st.sampled_from([None, None, None, *NAMES]),
        key=st.sampled_from([None, "a", "a", "b"]),
        later=st.sampled_from([False, False, False, True]),
        commits=st.sampled_from([True, True, True, False]),
    )
    def record(self, to, key, later, commits):
        places = [self.queue.place(name) for name in (NAMES if to is None else (to,))]
        places = [place for place in places if place is not None]
        if to is not None and not places:
            return
        with self.connection.transaction(force_rollback=not commits):
            event_id = record_event(
                self.connection, "order.paid", {}, key=key, destination=to, delay=3600.0 if later else None
            )
        rows = self.connection.execute(
            "select id, destination_id from outbox.deliveries where event_id = %s", [event_id]
        ).fetchall()
        assert sorted(row[1] for row in rows) == sorted(place.id for place in places if commits)
        for delivery_id, destination_id in rows:
            place = next(place for place in places if place.id == destination_id)
            self.queue.deliveries[delivery_id] = Delivery(delivery_id, str(event_id), place, key, later)
            self.touched = str(event_id)

    # ------------------------------------------------------------------ relays

    @rule(relay=relays, name=names, room=st.integers(1, 4), kind=st.sampled_from(["plain", "keyed", "suspects"]))
    def claim(self, relay, name, room, kind):
        target = self._target(name)
        if target is not None and target.is_open(0.0):
            self._claim(relay, target, room, kind)

    @precondition(lambda self: any(self.held.values()))
    @rule(relay=relays, chosen=st.lists(st.tuples(picks, outcomes), min_size=1, max_size=4))
    def settle(self, relay, chosen):
        """Settle some of what a relay holds, or believes it holds, in one flush."""
        held = self.held[relay]
        batch = {}
        for pick, outcome in chosen:
            if held:
                delivery = held.pop(pick % len(held))
                batch.setdefault(delivery.id, (delivery, outcome))
        self._settle(relay, list(batch.values()))

    @rule(relay=relays)
    def renew(self, relay):
        leases = Leases("", lambda _: None, 1.0)
        for delivery in self.held[relay]:
            leases.add(delivery, LEASE_SECONDS)
        for delivery_id, (token, _) in leases._held.items():
            if self.queue.owns(delivery_id, token):
                self.queue.deliveries[delivery_id].has_lapsed = False
        leases._renew(self.connection)

    @rule(relay=relays)
    def crash(self, relay):
        self.held[relay].clear()

    @precondition(lambda self: self._leased())
    @rule(pick=picks)
    def lapse(self, pick):
        leased = self._leased()
        delivery = leased[pick % len(leased)]
        self._set(delivery.id, "leased_until = clock_timestamp() - interval '1 ms'")
        delivery.has_lapsed = True

    @rule()
    def recover(self):
        sweeps = Sweeps(self.session, ServerClock(), poll_seconds=1.0)
        found = [self._target(place.name) for place in self.queue.places if place.state == "active"]
        self.run(sweeps.sweep(found, is_busy=True))
        for delivery_id in self.queue.recover():
            self._set(delivery_id, "due_at = due_at + interval '1 hour'")

    @precondition(lambda self: self._scheduled())
    @rule(pick=picks)
    def become_due(self, pick):
        scheduled = self._scheduled()
        delivery = scheduled[pick % len(scheduled)]
        self._set(delivery.id, "due_at = clock_timestamp()")
        delivery.is_later = False

    # ------------------------------------------------------------------ operators

    @rule(name=names, pick=picks, by_event=st.booleans())
    def redrive(self, name, pick, by_event):
        chosen, selection = self._selection(name, pick, by_event=by_event)
        taken = self._all(redriving(self.connection, selection, "test"))
        assert taken == self.queue.redrive(chosen)

    @rule(name=names, pick=picks, by_event=st.booleans())
    def replay(self, name, pick, by_event):
        chosen, selection = self._selection(name, pick, by_event=by_event)
        now = named_row(self.connection, "read_clock").now
        taken = self._all(find_replayable(self.connection, selection, now, "test").step)
        assert taken == self.queue.replay(chosen)

    @rule(name=names)
    def discard(self, name):
        taken = self._all(
            discarding(self.connection, select_deliveries(destination=name, event_type=None, events=[]), "test")
        )
        assert taken == self.queue.discard(name)

    @rule(name=names)
    def pause(self, name):
        if place := self.queue.place(name):
            destinations.pause_destination(self.connection, name, "test")
            place.state = "paused"

    @rule(name=names)
    def resume(self, name):
        destinations.resume_destination(self.connection, name)
        self.queue.resume(name)

    @rule(name=names)
    def remove(self, name):
        if self.queue.place(name):
            assert destinations.remove_destination(self.connection, name) == self.queue.remove(name)

    @rule(name=names)
    def add_again(self, name):
        if self.queue.place(name) is None:
            self._add(name)

    # ------------------------------------------------------------------ what must hold after each step

    @invariant()
    def the_tables_say_what_the_model_says(self):
        rows = self.connection.execute(
            "select id, event_id::text, destination_id, key, attempt, interruptions, lease_token,"
            " coalesce(leased_until < now(), false), due_at > now() from outbox.deliveries order by id"
        ).fetchall()
        assert rows == [
            (d.id, d.event_id, d.to.id, d.key, d.attempt, d.interruptions, d.token, d.has_lapsed, d.is_later)
            for d in sorted(self.queue.where("open"), key=lambda one: one.id)
        ]
        rows = self.connection.execute(
            "select delivery_id, event_id::text, destination_id, key, attempt, interruptions"
            " from outbox.dead_letters order by 1"
        ).fetchall()
        assert rows == [
            (d.id, d.event_id, d.to.id, d.key, d.attempt, d.interruptions)
            for d in sorted(self.queue.where("dead"), key=lambda one: one.id)
        ]

    @invariant()
    def every_try_and_every_action_has_its_row_of_history(self):
        found = Counter(self.connection.execute("select delivery_id, attempt, outcome::text from outbox.attempts"))
        wanted = Counter(
            {(d.id, *row): count for d in self.queue.deliveries.values() for row, count in d.history.items()}
        )
        assert found == wanted

    @invariant()
    def status_counts_what_the_model_counts(self):
        found = [
            (row["name"], row["state"], {state: row[state] for state in row if state in STATES and row[state]})
            for row in overview(self.connection)["destinations"]
        ]
        wanted = []
        for place in self.queue.places:
            counts = Counter(self.queue.state(d) for d in self.queue.deliveries.values() if d.to is place)
            counts = {state: counts[state] for state in counts if state in STATES}
            if counts or not place.is_removed:
                wanted.append((place.name, place.state, counts))
        assert sorted(found, key=repr) == sorted(wanted, key=repr)

    @invariant()
    def the_timeline_of_an_event_names_its_states(self):
        if self.touched is not None:
            found = {row["id"]: row["state"] for row in timeline(self.connection, self.touched)["deliveries"]}
            assert found == {
                d.id: self.queue.state(d) for d in self.queue.deliveries.values() if d.event_id == self.touched
            }

    def teardown(self):
        """Bring everything to its end: nothing may be left, and keys go in order."""
        if sys.exc_info()[0] is not None:  # a step has failed: what follows from that says nothing
            return
        for name in NAMES:
            self.resume(name)
            self.discard(name)
        self._release_all()
        for _ in range(20):
            for name in NAMES:
                self._drain(self._target(name))
            if not self.queue.where("open"):
                break
            self._release_all()
        left = [d for d in self.queue.where("open") if d.to.state == "active"]
        assert not left, "stuck"
        self.the_tables_say_what_the_model_says()
        self.every_try_and_every_action_has_its_row_of_history()
        super().teardown()

    # ------------------------------------------------------------------ how

    def _add(self, name: str) -> None:
        blocks = name == "strict"
        policy = {"on_dead": "block"} if blocks else {}
        self.queue.places.append(Place(add_destination(self.connection, name, policy=policy), name, blocks))

    def _target(self, name: str) -> Target | None:
        place = self.queue.place(name)
        if place is None:
            return None
        found = destinations.find_destination(self.connection, name)
        assert (found.id, found.state.value) == (place.id, place.state)
        target = Target(found, Policy(**POLICY, on_dead="block" if place.blocks else "skip"), None, LEASE_SECONDS)
        target.may_have_due = False  # look everywhere: marks have their own model
        return target

    def _claim(self, relay: int, target: Target, room: int, kind: str) -> list:
        suspects = kind == "suspects"
        place = self.queue.place(target.destination.name)
        claimable = self.queue.claimable(place, keyed=kind != "plain", suspects=suspects)
        heads = self.connection.execute(
            "select id from outbox.deliveries where id = any (%s) order by due_at, id limit %s", [list(claimable), room]
        ).fetchall()
        wanted = [self.queue.run(head, suspects=suspects) for (head,) in heads]
        claims = Claims(self.session, relay)
        ask = [Ask(target, room, START)]
        claimed = self.run(claims.without_keys(ask) if kind == "plain" else claims.with_keys(ask, suspects=suspects))
        assert sorted([d.id for d in run.deliveries] for run in claimed.runs) == sorted(wanted)
        deliveries = [delivery for run in claimed.runs for delivery in run.deliveries]
        for delivery in deliveries:
            assert delivery.lease_token > self.tokens, "tokens are fresh"
            self.queue.claim([delivery.id], delivery.lease_token)
            self.touched = delivery.event_id
        self.tokens = max([self.tokens, *(delivery.lease_token for delivery in deliveries)])
        self.held[relay] += deliveries
        return deliveries

    def _settle(self, relay: int, batch: list) -> None:
        written, lost = [], []
        settlements = Settlements(
            self.session,
            ServerClock(),
            Leases("", lambda _: None, 1.0),
            relay_id=relay,
            in_flight=lambda: 0,
            written=lambda found, _: written.extend(one.delivery.id for one in found),
            lost=lambda found: lost.extend(one.delivery.id for one in found),
        )
        now = time.monotonic()
        owned = []
        for delivery, outcome in batch:
            target = Target(delivery.destination, Policy(**POLICY), None, LEASE_SECONDS)
            if outcome == "released":
                settlements.give_back(target, [delivery])
            else:
                settlements.finish(target, delivery, RESULTS[outcome], now, now)
            if self.queue.owns(delivery.id, delivery.lease_token):
                owned.append(delivery.id)
                self.queue.settle(delivery.id, outcome)
            self.touched = delivery.event_id
        self.run(settlements.flush())
        assert sorted(written) == sorted(owned)
        assert sorted(lost) == sorted({delivery.id for delivery, _ in batch} - set(owned))

    def _selection(self, name: str, pick: int, *, by_event: bool):
        deliveries = list(self.queue.deliveries.values())
        if by_event and deliveries:
            event_id = self.touched = deliveries[pick % len(deliveries)].event_id
            chosen = [d for d in deliveries if d.event_id == event_id]
            return chosen, select_deliveries(destination=None, event_type=None, events=[event_id])
        chosen = [d for d in deliveries if d.to.name == name]
        return chosen, select_deliveries(destination=name, event_type="order.*", events=[])

    @staticmethod
    def _all(step) -> list[int]:
        """Run a bulk step until it is done, two at a time."""
        ids = []
        while taken := step(2):
            ids += [one.delivery_id for one in taken]
        note(f"taken: {ids}")
        return sorted(ids)

    def _set(self, delivery_id: int, what: str) -> None:
        self.connection.execute(f"update outbox.deliveries set {what} where id = %s", [delivery_id])  # noqa: S608

    def _leased(self) -> list[Delivery]:
        return [d for d in self.queue.where("open") if d.token is not None and not d.has_lapsed]

    def _scheduled(self) -> list[Delivery]:
        return [d for d in self.queue.where("open") if d.token is None and d.is_later]

    def _release_all(self) -> None:
        """Let every lease lapse, and everything become due."""
        while self._leased():
            self.lapse(0)
        self.recover()
        while self._scheduled():
            self.become_due(0)

    def _drain(self, target: Target | None) -> None:
        if target is None:
            return
        last: dict[str, int] = {}
        for kind in ("keyed", "suspects", "keyed"):
            for delivery in self._claim(1, target, 1000, kind):
                if delivery.key is not None:
                    assert delivery.id > last.get(delivery.key, 0), "keys go in order"
                    last[delivery.key] = delivery.id
                self._settle(1, [(delivery, "delivered")])


STATES = ("waiting", "scheduled", "leased", "held", "blocked", "dead")


@pytest.fixture
def machine(database):
    with asyncio.Runner() as runner, database.connect(prepare_threshold=0) as connection:
        session = Session(database.dsn, "test")
        yield lambda: QueueMachine(connection, session, runner)
        runner.run(session.reset())


@pytest.mark.timeout(0 if EXAMPLES else 300)
def test_the_database_does_what_the_model_does(machine):
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES or 40,
            stateful_step_count=30,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
