"""C10: transactional handlers work through PgBouncer in transaction mode, where nothing may be prepared."""

from __future__ import annotations

from tests.poolers import pgbouncer
from tests.processes import relay_process
from tests.queues import add_destination, attempts, count
from tests.waiting import wait_until

EVENTS = 200


def test_c10_transactional_handlers_work_behind_a_transaction_pooler(database):
    with database.connect() as connection:
        connection.execute("create table ledger (event_id uuid primary key)")
        add_destination(connection, "ledger", sink="handler", event_types=("order.paid", "order.sent"))
        connection.execute(
            "select outbox.record_event((array['order.paid', 'order.sent'])[1 + n %% 2]) from generate_series(1, %s) n",
            [EVENTS],
        )
        with pgbouncer(database.dsn) as dsn, relay_process(dsn, "--app", "tests.apps.pooled") as relay:
            wait_until(lambda: count(connection, "deliveries") == 0, "all settled", 60)
            assert relay.stop() == 0
        assert connection.execute("select count(*) from ledger").fetchone() == (EVENTS,)
        assert {row[2:] for row in attempts(connection)} == {("delivered", None)}
