from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from relays.http.pool import IDLE_SECONDS, MOST_IDLE, IdleConnections


class Connection:
    """The part of aiohttp's connection that the pool looks at."""

    def __init__(self):
        self.is_open = True
        self.protocol = SimpleNamespace(is_connected=lambda: self.is_open, should_close=False)

    def close(self) -> None:
        self.is_open = False


def test_last_used_is_taken_first():
    pool, one, two = IdleConnections(), Connection(), Connection()
    pool.keep("a", one, 0)
    pool.keep("a", two, 1)
    assert [pool.take("a", 2), pool.take("a", 2), pool.take("a", 2)] == [two, one, None]


def test_connections_are_not_shared_between_receivers():
    pool = IdleConnections()
    pool.keep("a", Connection(), 0)
    assert pool.take("b", 0) is None


def test_closed_unwanted_and_old_ones_are_not_given_out():
    pool, dead, unwanted, old = IdleConnections(), Connection(), Connection(), Connection()
    pool.keep("old", old, 0)
    pool.keep("a", dead, IDLE_SECONDS)
    pool.keep("b", unwanted, IDLE_SECONDS)
    dead.close()
    unwanted.protocol.should_close = True
    assert (pool.take("a", IDLE_SECONDS), pool.take("b", IDLE_SECONDS)) == (None, None)
    assert pool.take("old", IDLE_SECONDS + 1) is None
    assert not old.is_open
    assert not unwanted.is_open


def test_connection_the_receiver_closes_is_not_kept():
    pool, one = IdleConnections(), Connection()
    one.protocol.should_close = True
    pool.keep("a", one, 0)
    assert not one.is_open
    assert pool.take("a", 0) is None


def test_keeping_one_closes_the_oldest_of_another_receiver_once_it_is_too_old():
    pool, old = IdleConnections(), Connection()
    pool.keep("a", old, 0)
    pool.keep("b", Connection(), IDLE_SECONDS + 1)
    assert not old.is_open


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.floats(0, 10)), max_size=300))
def test_everything_kept_is_open_and_bounded_whatever_happens(steps):
    pool, now, made = IdleConnections(), 0.0, []
    for is_kept, receiver, seconds in steps:
        now += seconds
        if is_kept:
            made.append(Connection())
            pool.keep(receiver, made[-1], now)
        elif (taken := pool.take(receiver, now)) is not None:
            assert taken.is_open
            made.remove(taken)
    kept = set(pool._kept)
    assert {one for one in made if one.is_open} == kept
    assert sum(map(len, pool._by_receiver.values())) == len(kept)
    pool.close()
    assert not any(one.is_open for one in made)


def test_no_more_than_the_bound_are_kept():
    pool = IdleConnections()
    connections = [Connection() for _ in range(MOST_IDLE + 10)]
    for number, connection in enumerate(connections):
        pool.keep(number, connection, 0)
    assert [one.is_open for one in connections] == [False] * 10 + [True] * MOST_IDLE
