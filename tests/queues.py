"""Puts destinations and deliveries into a test database, and reads back what became of them."""

from __future__ import annotations

import json


def add_destination(connection, name="shop", *, sink="test", event_types=("*",), settings=None, policy=None) -> int:
    """Return the id of a new destination."""
    row = connection.execute(
        "insert into outbox.destinations (name, sink, event_types, settings, policy)"
        " values (%s, %s, %s, %s, %s) returning id",
        [name, sink, list(event_types), json.dumps(settings or {}), json.dumps(policy or {})],
    ).fetchone()
    return row[0]


def record(connection, event_type="order.paid", payload=None, **arguments) -> str:
    """Record one event through the SQL interface; return its id."""
    names = "".join(f", {name} => %({name})s" for name in arguments)
    row = connection.execute(
        f"select outbox.record_event(%(type)s::text, %(payload)s::jsonb{names})::text",
        {"type": event_type, "payload": json.dumps(payload or {}), **arguments},
    ).fetchone()
    return row[0]


def record_many(connection, count: int, *, keys: int = 0) -> None:
    """Record `count` events in one transaction; with `keys`, spread over so many ordering keys."""
    connection.execute(
        "select outbox.record_event('order.paid', jsonb_build_object('n', n),"
        " key => case when %(keys)s > 0 then 'key-' || n %% greatest(%(keys)s, 1) end)"
        " from generate_series(1, %(count)s) n",
        {"count": count, "keys": keys},
    )


def open_deliveries(connection) -> list:
    """Return the open deliveries in the order of their ids."""
    return connection.execute(
        "select id, event_id::text, key, attempt, interruptions, lease_token, leased_until, due_at"
        " from outbox.deliveries order by id"
    ).fetchall()


def attempts(connection, event_id: str | None = None) -> list:
    """Return (delivery_id, attempt, outcome, reason) of all attempts, or of those of one event, in order."""
    return connection.execute(
        "select delivery_id, attempt, outcome::text, reason from outbox.attempts"
        " where %(event_id)s::uuid is null or event_id = %(event_id)s::uuid order by started_at, attempt",
        {"event_id": event_id},
    ).fetchall()


def count(connection, table: str) -> int:
    """Return the number of rows of a table of the schema."""
    return connection.execute(f"select count(*) from outbox.{table}").fetchone()[0]  # noqa: S608 - names from tests
