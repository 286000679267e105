"""Plans must not depend on statistics: those of a queue table are always wrong (analysed empty, used full)."""

from __future__ import annotations

import json

import psycopg
import pytest

from relays.queries import query
from relays.sessions import PLAN_COUNT, SET_PLANS
from tests.queues import add_destination

ROWS = 20_000
ASKED = {
    "destination_ids": [1],
    "rooms": [500],
    "lease_seconds": [30.0],
    "low_due_ats": ["-infinity"],
    "low_ids": [0],
    "safe_due_ats": ["-infinity"],
    "safe_ids": [0],
    "high_due_ats": ["infinity"],
    "relay_id": 1,
}
KEYED = {
    "blocks": [False],
    "run_limits": [20],
    "key_destination_ids": [1],
    "keys": ["key-1"],
    "suspects": False,
    "scan_limit": 1000,
    "frontier": 10**9,
    "free_slots": list(range(256)),
}
IDS = "{" + ",".join(str(number) for number in range(1, 501)) + "}"
REFUSED = dict.fromkeys(
    (
        "refused_ids",
        "refused_tokens",
        "refused_ages_ms",
        "refused_durations_ms",
        "outcomes",
        "waits",
        "reasons",
        "certainties",
        "refused_statuses",
        "refused_details",
        "are_charged",
        "were_started",
        "repeat_ids",
        "repeat_reasons",
        "repeat_certainties",
        "repeat_details",
    ),
    "{}",
)
STATEMENTS = {
    "claim": (ASKED, {"deliveries_due_idx"}),
    "claim_keyed": ({**ASKED, **KEYED}, {"deliveries_due_idx", "deliveries_key_idx"}),
    "fence_keys": ({**ASKED, **KEYED}, {"deliveries_due_idx"}),
    "recover_lapsed": (
        {**ASKED, "dead_after": 4, "backoff_seconds": 2.0, "recover_limit": 1000},
        {"deliveries_due_idx"},
    ),
    "find_marks": (ASKED, {"deliveries_due_idx", "deliveries_key_idx"}),
    "discover": ({"last_id": 0, "scan_limit": 5000}, {"deliveries_pkey"}),
    "renew_leases": (
        {"ids": IDS, "tokens": IDS, "lease_seconds": [30.0] * 500},
        {"deliveries_pkey", "deliveries_due_idx"},
    ),
    "settle": (
        {
            "relay_id": 1,
            "ids": IDS,
            "tokens": IDS,
            "ages_ms": IDS,
            "durations_ms": IDS,
            "statuses": None,
            "details": None,
            **REFUSED,
        },
        {"deliveries_pkey"},
    ),
}


@pytest.fixture
def misled(database):
    """A session of a relay whose statistics say that the table is empty, while it holds many rows and dead entries."""
    with database.connect() as connection:
        add_destination(connection)
        connection.execute("vacuum analyze")
        connection.execute("alter table outbox.deliveries set (autovacuum_enabled = off)")
        connection.execute(
            "insert into outbox.deliveries (event_id, destination_id, key, due_at, recorded_at)"
            " select gen_random_uuid(), 1, case when n %% 2 = 0 then 'key-' || n end, now() - interval '1 s', now()"
            " from generate_series(1, %s) n",
            [ROWS],
        )
        connection.execute("delete from outbox.deliveries where id <= %s", [ROWS // 2])
    with psycopg.connect(database.dsn, autocommit=True, cursor_factory=psycopg.ClientCursor) as session:
        session.execute(SET_PLANS, [False] * PLAN_COUNT)
        yield session


def nodes(plan: dict):
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


@pytest.mark.parametrize("name", STATEMENTS)
def test_every_access_to_deliveries_is_through_the_index_it_names(misled, name):
    parameters, expected = STATEMENTS[name]
    with misled.transaction(force_rollback=True):
        row = misled.execute(b"explain (format json, costs off) " + query(name), parameters).fetchone()
        [found] = row[0] if isinstance(row[0], list) else json.loads(row[0])
    scans = [node for node in nodes(found["Plan"]) if node.get("Relation Name") == "deliveries"]
    reads = [node for node in scans if node["Node Type"] != "ModifyTable"]
    assert {node["Node Type"] for node in reads} <= {"Index Scan", "Index Only Scan"}
    assert {node["Index Name"] for node in reads} == expected
    for node in reads:  # an index read whole would have no condition, or only one on a later column
        condition = node["Index Cond"]
        leading = {
            "deliveries_pkey": "id",
            "deliveries_due_idx": "destination_id",
            "deliveries_key_idx": "destination_id",
        }
        assert leading[node["Index Name"]] in condition, condition
