"""record_event on Django's connections: atomic blocks, aliases, autocommit."""

from __future__ import annotations

import asyncio

import django
import django.db
import pytest
from django.conf import settings
from django.db import connection as default_connection
from django.db import connections, transaction
from psycopg.conninfo import conninfo_to_dict

import outbox
from outbox import Event, IdempotencyConflict, InvalidEvent, TransactionRequired, UsageError
from tests.queues import add_destination


def _database_settings(database):
    parts = conninfo_to_dict(database.dsn)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts["dbname"],
        "USER": parts["user"],
        "HOST": parts["host"],
        "PORT": parts.get("port", ""),
    }


@pytest.fixture
def admin(database, monkeypatch):
    """A database that Django's connections `default` and `other` point to."""
    if not settings.configured:
        settings.configure(DATABASES={"default": {}}, USE_TZ=True)
        django.setup()
    aliases = {"default": _database_settings(database), "other": _database_settings(database)}
    handler = django.db.utils.ConnectionHandler(aliases)
    monkeypatch.setattr(connections, "settings", handler.settings)
    for alias in aliases:
        if hasattr(connections._connections, alias):
            delattr(connections._connections, alias)
    with database.connect() as admin:
        add_destination(admin)
        yield admin
    connections.close_all()


def recorded(admin):
    return [row[0] for row in admin.execute("select type from outbox.events order by id").fetchall()]


def test_an_atomic_block_records(admin):
    with transaction.atomic():
        ids = [outbox.record_event(default_connection, "e1", {"a": 1}, key="k", delay=5)]
        ids += outbox.record_events(default_connection, [Event("e2"), Event("e3")])
        assert recorded(admin) == []
    assert recorded(admin) == ["e1", "e2", "e3"]
    assert admin.execute("select array_agg(id order by id) from outbox.events").fetchone() == (ids,)


def test_t02_inner_blocks_that_fail_record_nothing(admin):
    with transaction.atomic():
        outbox.record_event(default_connection, "e1", idempotency_key="k")
        with pytest.raises(IdempotencyConflict, match='idempotency key "k" was already used'), transaction.atomic():
            outbox.record_events(default_connection, [Event("e2"), Event("e3", idempotency_key="k")])
        with pytest.raises(InvalidEvent, match="there is none named"), transaction.atomic():
            outbox.record_event(default_connection, "e4", destination="nowhere")
        outbox.record_event(default_connection, "e5")
    with transaction.atomic():
        outbox.record_event(default_connection, "e6")
        transaction.set_rollback(True)
    assert recorded(admin) == ["e1", "e5"]


def test_t14_outside_of_atomic_it_is_refused(admin):
    with pytest.raises(TransactionRequired):
        outbox.record_event(default_connection, "refused")
    with pytest.raises(TransactionRequired):
        outbox.record_events(default_connection, [Event("refused")])
    outbox.record_event(default_connection, "allowed", allow_autocommit=True)
    transaction.set_autocommit(False)
    outbox.record_event(default_connection, "without.autocommit")
    transaction.commit()
    transaction.set_autocommit(True)
    assert recorded(admin) == ["allowed", "without.autocommit"]


def test_t14_a_broken_atomic_block_says_so_itself(admin):
    with transaction.atomic():
        with pytest.raises(django.db.DataError), default_connection.cursor() as cursor:
            cursor.execute("select 1 / 0")
        with pytest.raises((transaction.TransactionManagementError, django.db.InternalError)):
            outbox.record_event(default_connection, "order.paid")
        transaction.set_rollback(True)


def test_another_alias_records_in_its_own_transaction(admin):
    with transaction.atomic(using="other"):
        outbox.record_event(connections["other"], "e1")
        outbox.record_event("other", "e2")
        with pytest.raises(TransactionRequired):
            outbox.record_event(default_connection, "refused")
        with pytest.raises(TransactionRequired):
            outbox.record_event("default", "refused")
    assert recorded(admin) == ["e1", "e2"]


def test_an_unknown_alias_says_so_itself(admin):
    with pytest.raises(django.db.utils.ConnectionDoesNotExist):
        outbox.record_event("nowhere", "order.paid")


@pytest.mark.parametrize("dsn", ["postgresql://app:SECRET@host/shop", "host=db password=SECRET"])
def test_a_dsn_is_taken_for_no_alias_and_not_shown(admin, dsn):
    with pytest.raises(UsageError, match="cannot record on a str") as refused:
        outbox.record_event(dsn, "order.paid")
    assert "SECRET" not in str(refused.value)


def test_a_per_cent_sign_in_a_payload_is_a_per_cent_sign(admin):
    with transaction.atomic():
        outbox.record_event(default_connection, "order.paid", {"discount": "5 %s %"})
    assert admin.execute("select payload from outbox.events").fetchall() == [({"discount": "5 %s %"},)]


def test_a_django_connection_is_refused_in_asyncio(admin):
    async def record():
        with pytest.raises(UsageError, match="the connection is blocking"):
            await outbox.arecord_event("default", "order.paid")

    asyncio.run(record())
