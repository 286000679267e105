"""The recorder's half of the doorbell and of the key fence, seen in locks and notifications."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

import outbox
from outbox import Event
from tests.queues import add_destination, count
from tests.waiting import wait_until

DOORBELL = (1330205760, 0)
FENCE_CLASS = 1330205761


@pytest.fixture
def relay(database):
    """A session that listens, as an idle relay's does."""
    with database.connect() as relay:
        add_destination(relay)
        relay.execute("listen outbox")
        yield relay


@pytest.fixture
def producer(database):
    with psycopg.connect(database.dsn) as producer:
        yield producer


def arm(relay):
    assert relay.execute("select pg_try_advisory_lock_shared(%s, %s)", DOORBELL).fetchone() == (True,)


def rings(relay) -> int:
    """Return how often the doorbell rang, by now: notifications come before the answer to a statement."""
    relay.execute("select 1")
    return len(list(relay.notifies(timeout=0, stop_after=None)))


def advisory_locks(session):
    return session.execute(
        "select classid::bigint, objid::bigint, mode from pg_locks"
        " where locktype = 'advisory' and pid = pg_backend_pid() order by 1, 2"
    ).fetchall()


def test_t12_a_sleeping_relay_is_rung_once_per_commit(relay, producer):
    arm(relay)
    outbox.record_event(producer, "order.paid")
    outbox.record_events(producer, [Event("order.paid")] * 3)
    assert rings(relay) == 0
    producer.commit()
    assert rings(relay) == 1


def test_t12_one_transaction_of_many_at_a_time_rings(database, relay):
    """Those that find the relay asleep within the same 5 ms leave it to one; it may take them some times 5 ms."""
    arm(relay)
    with ThreadPoolExecutor(20) as pool:
        start = threading.Barrier(20)

        def record(_):
            with psycopg.connect(database.dsn) as session:
                session.execute("select outbox.key_slot('warm')")
                start.wait(60)
                outbox.record_event(session, "order.paid")

        begun = time.monotonic()
        list(pool.map(record, range(20)))
        slices = (time.monotonic() - begun) / 0.005
    assert 1 <= rings(relay) <= min(20, slices + 2)
    assert count(relay, "deliveries") == 20


def test_t12_a_slow_transaction_that_has_to_ring_does_not_keep_others_from_ringing(database, relay, producer):
    arm(relay)
    outbox.record_event(producer, "order.paid")
    with psycopg.connect(database.dsn) as other:
        wait_until(lambda: _rings_after_a_commit(relay, other), "another transaction rings")
    producer.commit()


def _rings_after_a_commit(relay, session) -> int:
    outbox.record_event(session, "order.paid")
    session.commit()
    return rings(relay)


def test_t12_a_long_transaction_that_rings_late_leaves_the_next_rings_to_others(database, relay, producer):
    arm(relay)
    with psycopg.connect(database.dsn) as other:
        outbox.record_event(producer, "order.paid")
        wait_until(lambda: _rings_after_a_commit(relay, other), "another transaction rings")
        (rung,) = relay.execute("select last_value from outbox.last_ring_seq").fetchone()
        outbox.record_event(producer, "order.paid")
        assert relay.execute("select last_value from outbox.last_ring_seq").fetchone() == (rung,)
    producer.commit()
    assert rings(relay) == 1


def test_t12_a_session_whose_transaction_failed_rings_again_at_once(relay, producer):
    arm(relay)
    outbox.record_event(producer, "order.paid")
    producer.rollback()
    outbox.record_event(producer, "order.paid")
    producer.commit()
    assert rings(relay) == 1


def test_t12_a_ring_in_a_savepoint_that_rolls_back_is_rung_again(relay, producer):
    arm(relay)
    with producer.transaction() as savepoint:
        outbox.record_event(producer, "order.paid")
        raise psycopg.Rollback(savepoint)
    outbox.record_event(producer, "order.paid")
    producer.commit()
    assert rings(relay) == 1


def test_t12_nobody_asleep_nobody_rung(relay, producer):
    outbox.record_event(producer, "order.paid")
    producer.commit()
    assert rings(relay) == 0


def test_t12_a_rollback_rings_nobody(relay, producer):
    arm(relay)
    outbox.record_event(producer, "order.paid")
    producer.rollback()
    assert rings(relay) == 0


def test_an_event_without_destination_rings_nobody(relay, producer):
    relay.execute("update outbox.destinations set event_types = '{}'")
    arm(relay)
    outbox.record_event(producer, "order.paid")
    producer.commit()
    assert rings(relay) == 0
    assert count(relay, "events") == 1


@pytest.mark.parametrize("state", ["paused", "tripped", "disabled", "retry_after"])
def test_t12_a_held_destination_rings_nobody(relay, producer, state):
    if state == "retry_after":
        relay.execute("update outbox.destinations set held_until = now() + interval '1 minute'")
    else:
        relay.execute("update outbox.destinations set state = %s", [state])
    arm(relay)
    outbox.record_event(producer, "order.paid")
    outbox.record_events(producer, [Event("order.paid")])
    producer.commit()
    assert rings(relay) == 0
    assert count(relay, "deliveries") == 2


def test_t12_one_destination_that_is_not_held_is_enough(relay, producer):
    relay.execute("update outbox.destinations set state = 'paused'")
    add_destination(relay, "other")
    arm(relay)
    outbox.record_event(producer, "order.paid")
    producer.commit()
    assert rings(relay) == 1


@pytest.mark.parametrize("value", ["off", "false", "no", "0"])
def test_t12_the_doorbell_can_be_switched_off(relay, producer, value):
    arm(relay)
    producer.execute("select set_config('outbox.doorbell', %s, false)", [value])
    outbox.record_event(producer, "order.paid")
    producer.commit()
    assert rings(relay) == 0
    assert count(relay, "deliveries") == 1


def test_the_doorbell_set_for_one_transaction_is_back_afterwards(relay, producer):
    arm(relay)
    producer.execute("set local outbox.doorbell = off")
    outbox.record_event(producer, "order.paid")
    producer.commit()
    assert rings(relay) == 0
    outbox.record_event(producer, "order.paid")
    producer.commit()
    assert rings(relay) == 1


def test_several_sleeping_relays_are_all_rung(database, relay, producer):
    with database.connect() as other:
        other.execute("listen outbox")
        arm(relay)
        arm(other)
        outbox.record_event(producer, "order.paid")
        producer.commit()
        assert (rings(relay), rings(other)) == (1, 1)


def test_a_recorder_that_looks_at_the_doorbell_is_not_taken_for_a_relay(database, relay, producer):
    with database.connect() as other:
        other.execute("select pg_advisory_lock(%s, %s)", DOORBELL)  # as a recorder holds it, for an instant
        outbox.record_event(producer, "order.paid")
        producer.commit()
    assert rings(relay) == 0


def test_recording_leaves_no_session_lock_behind(relay, producer):
    for is_armed in (False, True):
        if is_armed:
            arm(relay)
        outbox.record_event(producer, "order.paid", key="k")
        producer.commit()
        assert advisory_locks(producer) == []


def test_a_cancelled_recorder_leaves_no_session_lock_behind(relay, database):
    arm(relay)
    with database.connect() as producer:
        for milliseconds in range(5, 25):
            producer.execute(f"set statement_timeout = {milliseconds}")
            with pytest.raises(psycopg.errors.QueryCanceled):
                producer.execute("select outbox.record_event('a', key => 'k') from generate_series(1, 100000)")
            assert advisory_locks(producer) == []


def test_a_transaction_can_be_prepared_with_the_doorbell_off(relay, producer):
    arm(relay)
    producer.execute("set outbox.doorbell = off")
    producer.commit()
    transaction = producer.xid(1, "outbox", relay.info.dbname)
    producer.tpc_begin(transaction)
    outbox.record_event(producer, "order.paid", key="k", idempotency_key="i")
    producer.tpc_prepare()
    assert count(relay, "deliveries") == 0
    producer.tpc_commit()
    assert count(relay, "deliveries") == 1


def test_a_prepared_transaction_with_the_doorbell_on_is_refused_by_postgresql(database, relay):
    arm(relay)
    with database.connect() as producer:
        producer.execute("begin")
        outbox.record_event(producer, "order.paid")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="NOTIFY"):
            producer.execute("prepare transaction 'doorbell on'")


def test_a_keyed_event_holds_its_slot_of_the_fence_until_the_end(relay, producer):
    outbox.record_event(producer, "order.paid", key="k1")
    (slot,) = producer.execute("select outbox.key_slot('k1')").fetchone()
    assert advisory_locks(producer) == [(FENCE_CLASS, slot, "ShareLock")]
    producer.commit()
    assert advisory_locks(producer) == []


def test_an_unkeyed_event_takes_no_slot(relay, producer):
    outbox.record_event(producer, "order.paid")
    outbox.record_events(producer, [Event("order.paid")])
    assert advisory_locks(producer) == []


def test_a_batch_holds_the_slots_of_all_its_keys_and_no_more_than_256(relay, producer):
    outbox.record_events(producer, [Event("order.paid", key=f"k{number}") for number in range(5000)])
    locks = advisory_locks(producer)
    assert len(locks) == 256
    assert {(class_id, mode) for class_id, _, mode in locks} == {(FENCE_CLASS, "ShareLock")}


def test_two_recorders_of_one_key_do_not_wait_for_each_other(database, relay, producer):
    with psycopg.connect(database.dsn, options="-c lock_timeout=5s") as other:
        outbox.record_event(producer, "order.paid", key="k1")
        outbox.record_event(other, "order.paid", key="k1")
        other.commit()
        producer.commit()


def test_the_slot_is_held_before_the_delivery_id_is_drawn(database, relay):
    """A claim reads the sequence, then tries the slot: an id up to what it read must belong to a visible recorder."""
    with psycopg.connect(database.dsn) as producer, database.connect() as fence:
        (slot,) = fence.execute("select outbox.key_slot('k1')").fetchone()
        fence.execute("select pg_advisory_lock(%s, %s)", [FENCE_CLASS, slot])
        before = fence.execute("select last_value, is_called from outbox.deliveries_id_seq").fetchone()
        producer.execute("set lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            outbox.record_event(producer, "order.paid", key="k1")
        producer.rollback()
        producer.execute("set lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            outbox.record_events(producer, [Event("order.paid", key="k1")])
        assert fence.execute("select last_value, is_called from outbox.deliveries_id_seq").fetchone() == before


def test_the_clock_of_a_delivery_is_read_under_the_lock_on_deliveries(database, relay):
    """A relay takes what was recorded before t for decided once the lock holders of t are gone (DESIGN: section 6)."""
    with psycopg.connect(database.dsn) as producer, psycopg.connect(database.dsn) as blocker:
        for batch in (False, True):
            blocker.execute("lock table outbox.deliveries in share mode")
            blocked = producer.info.backend_pid
            late = _recorded_behind(producer, relay, blocker, blocked, batch)
            assert late == (True,)


def _recorded_behind(producer, relay, blocker, pid, batch):
    def record():
        if batch:
            return outbox.record_events(producer, [Event("order.paid")])[0]
        return outbox.record_event(producer, "order.paid")

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(record)
        wait_until(
            lambda: relay.execute(
                "select exists (select from pg_stat_activity where pid = %s and wait_event_type = 'Lock')", [pid]
            ).fetchone()[0],
            "the recorder waits for the lock",
        )
        (moment,) = relay.execute("select clock_timestamp()").fetchone()
        blocker.rollback()
        event_id = waiting.result(30)
    late = producer.execute(
        "select due_at > %s from outbox.deliveries where event_id = %s", [moment, event_id]
    ).fetchone()
    producer.commit()
    return late
