"""Sessions of a relay may be reset while a statement runs on them, and are not reopened in a hurry."""

from __future__ import annotations

import asyncio
import time

import psycopg
import pytest
import uvloop

from relays.sessions import Session
from tests.processes import relay_process
from tests.waiting import wait_until

IS_WAITING = (
    "select exists (select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database())"
)


@pytest.mark.parametrize("loop_factory", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_c12_a_reset_lets_the_statement_under_way_fail_and_the_next_one_work(database, loop_factory):
    async def reset_while_waiting() -> None:
        async with Session(database.dsn, "test") as session:
            with database.connect() as blocker, database.connect() as observer, blocker.transaction():
                blocker.execute("lock table outbox.destinations in access exclusive mode")
                waiting = asyncio.create_task(session.rows("list_destinations"))
                await asyncio.to_thread(
                    wait_until, lambda: observer.execute(IS_WAITING).fetchone()[0], "the statement waits"
                )
                await session.reset()
                assert await session.rows("read_clock")  # on a connection that may have the same descriptor
                with pytest.raises(psycopg.OperationalError):
                    await waiting
            assert await session.rows("list_destinations") == []

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(reset_while_waiting())


def test_c12_a_relay_without_its_database_keeps_its_pauses(server, database):
    with relay_process(database.dsn) as relay:
        relay.started()
        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute(f"drop database {database.name} with (force)")
        relay.wait_for(r"not claiming, trying again in 0\.1 s")
        began = time.monotonic()
        relay.wait_for(r"not claiming, trying again in 3\.2 s")
        assert time.monotonic() - began > 1.5, "of 3.1 s; what wakes the relay may cut one pause short, not each"
