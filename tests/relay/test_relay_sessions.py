"""Sessions of a relay may be reset while a statement runs on them."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
import uvloop

from relays.sessions import Session
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
