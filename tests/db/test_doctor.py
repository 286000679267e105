"""Each check of the doctor finds what it is for, and nothing on a sound database."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from outbox.database import connect
from outbox.doctor import Health, examine
from outbox.doctor.sessions import check_clock, check_doorbell, check_horizon
from outbox.doctor.tables import (
    INDEXES,
    OPTIONS,
    check_bloat,
    check_indexes,
    check_sequences,
    check_storage,
    check_tuples,
)
from outbox.doctor.upkeep import check_leases, check_partitions, check_roles, check_versions
from outbox.pins import pinned, unpinning
from tests.commands import outbox
from tests.poolers import pgbouncer
from tests.processes import relay_process
from tests.queues import add_destination, record
from tests.waiting import wait_until


@pytest.fixture
def connection(database):
    with database.connect() as connection:
        yield connection


def bad(findings) -> list:
    return [finding for finding in findings if finding.health is not Health.OK]


def test_a_sound_database_has_no_findings_and_each_check_says_what_it_saw(database):
    with connect(database.dsn) as connection:
        found = list(examine(connection, database.dsn))
    assert [finding for finding in bad(found) if finding.check != "roles"] == [], "roles are the cluster's"
    assert len(found) >= 15
    assert all(finding.evidence for finding in found)


def test_what_it_expects_is_what_the_migrations_make(connection):
    made = connection.execute(
        "select i.relname from pg_index x join pg_class i on i.oid = x.indexrelid join pg_class t on t.oid = x.indrelid"
        " where t.relnamespace = 'outbox'::regnamespace and not t.relispartition"
    ).fetchall()
    assert {row[0] for row in made} - {"meta_pkey", "migrations_pkey"} == INDEXES
    [(options,)] = connection.execute(
        "select reloptions from pg_class where oid = 'outbox.deliveries'::regclass"
    ).fetchall()
    assert dict(option.split("=") for option in options) == OPTIONS


def test_a_transaction_pooler_is_found_by_its_silence(database):
    with pgbouncer(database.dsn) as through:
        [finding] = check_doorbell(through)
    assert finding.health is Health.PROBLEM
    assert "PgBouncer" in finding.evidence
    assert "--listen-dsn" in finding.remedy


def test_who_pins_the_horizon_is_named_with_pid_and_ages(database, connection):
    with database.connect(application_name="reports") as sleeper, sleeper.transaction():
        sleeper.execute("set transaction isolation level repeatable read")
        sleeper.execute("select txid_current_snapshot()")
        pid = sleeper.info.backend_pid
        [finding] = bad(check_horizon(connection, min_seconds=0))
        assert f"session {pid} (reports) is idle in transaction, open for" in finding.evidence
        assert "its query for" in finding.evidence
        assert f"pg_terminate_backend({pid})" in finding.remedy
    assert bad(check_horizon(connection, min_seconds=0)) == []


def test_a_forgotten_prepared_transaction_is_found(database, connection):
    with database.connect() as other:
        other.autocommit = False
        other.execute("create table forgotten ()")
        other.execute("prepare transaction 'half done'")
        other.commit()
    try:
        [finding] = bad(check_horizon(connection, min_seconds=0))
        assert "prepared transaction half done" in finding.evidence
        assert finding.remedy == "commit prepared or rollback prepared 'half done'"
    finally:
        connection.execute("rollback prepared 'half done'")


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [("replication slot", "pg_drop_replication_slot('copy')"), ("standby", "hot_standby_feedback")],
)
def test_what_replication_pins_has_a_remedy_of_its_own(kind, remedy):
    pin = SimpleNamespace(
        kind=kind, pid=None, name="copy", state="inactive", age_seconds=None, query_age_seconds=None, xids=5
    )
    assert pinned(pin) == f"{kind} copy is inactive; 5 transactions since cannot be vacuumed"
    assert remedy in unpinning(pin)


def test_clocks_of_one_machine_agree(connection):
    [finding] = check_clock(connection)
    assert finding.health is Health.OK


def test_a_relay_whose_clock_is_wrong_is_named(connection):
    connection.execute(
        "insert into outbox.relays (name, host, pid, version, concurrency) values"
        " ('fine', 'h', 1, '1', 1), ('late', 'h', 2, '1', 1), ('early', 'h', 3, '1', 1), ('new', 'h', 4, '1', 1)"
    )
    connection.execute(
        "update outbox.relays set clock_ahead_seconds = c from (values ('fine', 0.01), ('late', -7),"
        " ('early', 90)) v (n, c) where n = name"
    )
    late, early = bad(check_clock(connection))
    assert (late.health, "(late) is 7s behind the database" in late.evidence) == (Health.WARNING, True)
    assert (early.health, "(early) is 1.5m ahead of the database" in early.evidence) == (Health.PROBLEM, True)


def test_a_relay_says_at_its_start_what_its_clock_shows_and_that_it_hears(database, connection):
    with relay_process(database.dsn) as relay:
        relay.started()
        _, found = check_clock(connection)
        assert connection.execute("select doorbell from outbox.relays").fetchone() == ("listening",)
    assert found.evidence.startswith("relay 1 (")


def test_orphan_leases_are_counted_by_relay(connection):
    add_destination(connection)
    for _ in range(3):
        record(connection)
    connection.execute(
        "update outbox.deliveries set lease_token = 1, relay_id = 77, leased_until = now() - interval '5 minutes'"
        " where id in (select id from outbox.deliveries limit 2)"
    )
    [finding] = bad(check_leases(connection))
    assert finding.health is Health.PROBLEM
    assert finding.evidence.startswith("lapsed leases of relay 77: 2, the first since 5")


def test_changed_storage_options_are_found_with_the_statement_that_mends_them(connection):
    connection.execute("alter table outbox.deliveries set (fillfactor = 100), reset (autovacuum_vacuum_cost_delay)")
    [finding] = bad(check_storage(connection))
    assert "fillfactor is 100, not 50" in finding.evidence
    assert "autovacuum_vacuum_cost_delay is not set, not 0" in finding.evidence
    connection.execute(finding.remedy)
    assert bad(check_storage(connection)) == []


def test_missing_and_foreign_indexes_are_found(connection):
    connection.execute("drop index outbox.deliveries_event_idx")
    connection.execute("create index slow_idx on outbox.deliveries (leased_until)")
    missing, foreign = bad(check_indexes(connection))
    assert "outbox.deliveries_event_idx is missing" in missing.evidence
    assert (foreign.health, "slow_idx on outbox.deliveries is not ours" in foreign.evidence) == (Health.WARNING, True)


def test_an_invalid_index_is_found(connection):
    connection.execute(
        "update pg_index set indisvalid = false where indexrelid = 'outbox.deliveries_due_idx'::regclass"
    )
    [finding] = bad(check_indexes(connection))
    assert finding.remedy == "reindex index concurrently outbox.deliveries_due_idx"


def test_a_sequence_near_its_end_is_found(connection):
    connection.execute("select setval('outbox.destinations_id_seq', 2000000000)")
    [finding] = bad(check_sequences(connection))
    assert (finding.health, "destinations_id_seq has used 93.1%" in finding.evidence) == (Health.PROBLEM, True)


def test_missing_partitions_and_rows_in_the_default_one_are_found(connection):
    connection.execute(
        "do $$ declare name text; begin for name in select p.name from outbox.partitions p where not p.is_default"
        " loop execute format('drop table outbox.%I', name); end loop; end $$"
    )
    assert {finding.check for finding in bad(check_partitions(connection))} == {
        "partitions of attempts",
        "partitions of events",
    }
    assert {finding.evidence for finding in bad(check_partitions(connection))} == {
        "there is none for today, so rows go into the default partition"
    }
    add_destination(connection)
    record(connection)
    assert "rows had to go into the default partition" in [f.evidence for f in bad(check_partitions(connection))]


def test_dead_rows_and_cold_updates_are_found(database, connection, monkeypatch):
    monkeypatch.setattr("outbox.doctor.tables.FEWEST_DEAD", 50)
    monkeypatch.setattr("outbox.doctor.tables.FEWEST_UPDATES", 50)
    connection.execute("alter table outbox.deliveries set (autovacuum_enabled = off)")
    with database.connect() as busy:  # every version counts its work when it leaves
        add_destination(busy)
        for _ in range(20):
            record(busy)
        for _ in range(5):
            busy.execute("update outbox.deliveries set due_at = due_at + interval '1 second'")
    found = wait_until(lambda: bad(check_tuples(connection)), "the work is counted")
    assert [finding.check for finding in found] == ["dead rows", "hot updates"]


def test_a_bloated_index_is_found(connection, monkeypatch):
    monkeypatch.setattr("outbox.doctor.tables.BLOATED_BYTES", 4096)
    names = [finding.remedy for finding in bad(check_bloat(connection))]
    assert "reindex index concurrently outbox.deliveries_pkey" in names


def test_relays_of_another_version_are_found(connection):
    connection.execute(
        "insert into outbox.relays (name, host, pid, version, concurrency) values ('old', 'h', 1, '0.0.9', 1)"
    )
    [finding] = bad(check_versions(connection))
    assert "relays run 0.0.9, this command is" in finding.evidence


def test_rights_that_a_role_lost_or_should_not_have_are_found(admin_of_roles):
    assert bad(check_roles(admin_of_roles)) == []
    admin_of_roles.execute("revoke delete on outbox.deliveries from outbox_relay")
    admin_of_roles.execute("grant select on outbox.events to outbox_writer")
    assert [finding.evidence for finding in bad(check_roles(admin_of_roles))] == [
        "outbox_relay should delete on outbox.deliveries",
        "outbox_writer should not read outbox.events",
    ]
    admin_of_roles.execute("revoke all on all tables in schema outbox from outbox_relay")
    assert any("and 9 more" in finding.evidence for finding in bad(check_roles(admin_of_roles)))


def test_a_role_that_may_not_look_gets_findings_and_no_crash(database, login):
    reader = login("outbox_reader")
    found = list(examine(reader, database.dsn_as(reader.info.user)))
    assert any("not allowed to look" in finding.evidence for finding in found)
    assert any("grant pg_monitor" in (finding.remedy or "") for finding in found)


def test_the_command_shows_evidence_and_remedy_and_exits_1_on_problems(database, connection):
    assert outbox("doctor", dsn=database.dsn).code == 0
    connection.execute("drop index outbox.deliveries_event_idx")
    sick = outbox("doctor", dsn=database.dsn)
    assert sick.code == 1
    assert "outbox.deliveries_event_idx is missing" in sick.stdout
    assert "-> create it as sql/migrations says" in sick.stdout
    [finding] = [one for one in outbox("doctor", "--json", dsn=database.dsn).json if one["health"] == "problem"]
    assert finding == {
        "check": "indexes",
        "health": "problem",
        "evidence": "index outbox.deliveries_event_idx is missing",
        "remedy": "create it as sql/migrations says",
    }
