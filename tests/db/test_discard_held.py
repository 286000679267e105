"""What a removed destination left open can be dropped, also what a relay that died had leased."""

from __future__ import annotations

import pytest

from outbox.dead_letters import discarding
from outbox.destinations import remove_destination
from outbox.selection import select_deliveries
from tests.queues import add_destination, count, record


@pytest.mark.parametrize(("until", "left"), [("-1 s", 0), ("1 hour", 1)])
def test_a_lapsed_lease_is_dropped_and_a_running_one_is_not(database, until, left):
    with database.connect() as connection:
        add_destination(connection)
        record(connection)
        connection.execute(
            "update outbox.deliveries set attempt = 1, lease_token = 1, relay_id = 1, leased_until = now()"
            " + %s::interval",
            [until],
        )
        remove_destination(connection, "shop")
        selection = select_deliveries(destination="shop", event_type=None, events=[])
        assert len(discarding(connection, selection, "test")(10)) == 1 - left
        assert count(connection, "deliveries") == left
