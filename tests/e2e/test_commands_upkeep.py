"""`outbox prune` and `outbox adopt`, and relays that refuse a copy."""

from __future__ import annotations

from tests.commands import outbox
from tests.processes import relay_process
from tests.queues import add_destination, count, record


def make_copy(connection) -> None:
    """Pretend that the database was restored into another cluster."""
    connection.execute("update outbox.meta set system_identifier = 1")


def test_a_relay_sends_nothing_from_a_restored_copy_until_it_is_adopted(database):
    with database.connect() as connection:
        add_destination(connection, sink="handler", event_types=["order.*"])
        record(connection)
        make_copy(connection)
        with relay_process(database.dsn, "--drain", "--app", "tests.apps.shop") as relay:
            assert relay.ended() == 1
            assert "this database is a copy (installed in cluster 1, this is cluster" in relay.output
            assert "run `outbox adopt`" in relay.output
        assert count(connection, "deliveries") == 1
        status = outbox("status", "--json", dsn=database.dsn).json
        assert "restored_copy" in [problem["code"] for problem in status["problems"]]
        assert outbox("status", "--check", dsn=database.dsn).code == 1

        assert outbox("adopt", "--yes", dsn=database.dsn).code == 0
        with relay_process(database.dsn, "--drain", "--app", "tests.apps.shop") as relay:
            assert relay.ended() == 0, relay.output


def test_adopting_needs_somebody_who_means_it(database):
    with database.connect() as connection:
        make_copy(connection)
        refused = outbox("adopt", dsn=database.dsn)
        assert refused.code == 2
        assert "add --yes" in refused.stderr
        assert connection.execute("select system_identifier from outbox.meta").fetchone() == (1,)


def test_adopting_twice_says_that_there_is_nothing_to_do(database):
    with database.connect() as connection:
        make_copy(connection)
    assert outbox("adopt", "--yes", "--json", dsn=database.dsn).json == {"adopted": True}
    assert outbox("adopt", "--yes", "--json", dsn=database.dsn).json == {"adopted": False}
    again = outbox("adopt", dsn=database.dsn)
    assert (again.code, again.stdout) == (0, "nothing to adopt: the outbox belongs here\n")


def test_o04_pruning_removes_what_is_finished_and_keeps_what_is_open(database):
    old = "date_trunc('day', now() - interval '40 days', 'UTC') + interval '1 hour'"
    with database.connect() as connection:
        add_destination(connection)
        finished, opened = record(connection), record(connection)
        day = "date_trunc('day', now() - interval '40 days', 'UTC')"
        connection.execute(f"select outbox.attach_partition('events', {day}, {day} + interval '1 day')")
        old_ids = {}
        for event_id in (finished, opened):
            [(old_ids[event_id],)] = connection.execute(
                f"insert into outbox.events (id, type, payload, recorded_at)"  # noqa: S608 - a constant
                f" values (outbox.uuid_floor({old} + interval '{len(old_ids)} s'), 'order.paid', '{{}}', {old})"
                f" returning id"
            ).fetchall()
        connection.execute("delete from outbox.deliveries where event_id = %s", [finished])
        connection.execute("update outbox.deliveries set event_id = %s where event_id = %s", [old_ids[opened], opened])
        done = outbox("prune", "--keep", "30d", "--json", dsn=database.dsn)
        assert done.code == 0, done.output
        left = {row[0] for row in connection.execute("select id from outbox.events").fetchall()}
        assert old_ids[finished] not in left
        assert old_ids[opened] in left


def test_o04_a_retention_that_would_remove_all_is_refused(database):
    for keep in ("0s", "1s", "-1d", "soon"):
        refused = outbox("prune", "--keep", keep, dsn=database.dsn)
        assert refused.code == 2, keep
        assert "keep" in refused.stderr
    assert outbox("prune", "--dry-run", dsn=database.dsn).stdout == "nothing is older than that\n"
