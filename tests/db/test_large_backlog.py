"""O05: a large backlog that nobody analysed does not make a claim walk over it."""

from __future__ import annotations

import asyncio

from tests.claiming import claim, target
from tests.queues import add_destination

DUE = 100_000


def test_o05_claims_touch_what_they_take_whatever_lies_behind(database):
    with database.connect() as connection:
        add_destination(connection, "big")
        add_destination(connection, "small")
        connection.execute("vacuum analyze")
        for number, rows in ((1, DUE), (2, 100)):
            connection.execute(
                "with e as (insert into outbox.events (id, type, payload, recorded_at)"
                " select outbox.new_event_id(clock_timestamp()), 'a.b', '{}', now() from generate_series(1, %s)"
                " returning id) insert into outbox.deliveries (event_id, destination_id, due_at, recorded_at)"
                " select id, %s, clock_timestamp(), now() from e",
                [rows, number],
            )
        read = (
            "select pg_stat_get_xact_tuples_fetched('outbox.deliveries'::regclass)"
            " + pg_stat_get_tuples_fetched('outbox.deliveries'::regclass)"
        )
        connection.execute("select pg_stat_reset()")
        small, big = target(connection, "small"), target(connection, "big")
        assert asyncio.run(claim(database.dsn, small, room=100)).count == 100
        assert asyncio.run(claim(database.dsn, big, room=100)).count == 100
        connection.execute("select pg_sleep(0)")
        touched = connection.execute(read).fetchone()[0]
        assert touched < 5000, "a claim of 100 rows reads hundreds, not the backlog"
