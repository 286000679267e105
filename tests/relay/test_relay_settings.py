"""Bad settings are refused at start: one line with the numbers and the remedy, exit code 2, nothing started."""

from __future__ import annotations

import psycopg
import pytest

from outbox.errors import InvalidSettings
from relays import bootstrap
from relays.settings import RelaySettings
from tests.processes import relay_process
from tests.queues import add_destination, count


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--concurrency", "0"], "--concurrency 0: give 1 to 10000"),
        (["--poll", "0s"], "--poll"),
        (["--poll", "soon"], "--poll: 'soon' is not a duration"),
        (["--grace", "-1s"], "--grace"),
        (["--lease", "1s"], "--lease 1s leaves no time to send"),
        (["--lease", "10s"], "--lease 10s is shorter than 22s, the timeout of destination 'shop'"),
        (["--only", "nowhere"], "--only nowhere: no such destination; known: shop"),
        (["--app", "no_such_module"], "--app no_such_module"),
        (["--log-level", "loud"], "--log-level 'loud'"),
        (["--log-format", "xml"], "--log-format 'xml'"),
    ],
)
def test_what_cannot_work_is_refused_by_name(database, options, words):
    with database.connect() as connection:
        settings = {"url": "https://shop.example/hooks", "secret": "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"}
        add_destination(connection, "shop", sink="webhook", settings=settings)
    with relay_process(database.dsn, *options) as relay:
        assert relay.ended() == 2
    refusals = [line for line in relay.lines if line.startswith("outbox-relay: ")]
    assert len(refusals) == 1, relay.output
    assert words in refusals[0]
    assert "Traceback" not in relay.output
    with database.connect() as connection:
        left = connection.execute("select id from outbox.relays where state <> 'stopped'").fetchall()
        assert left == [], "a relay that was refused is not missed as one that died"


def test_a_lease_that_fits_is_taken_as_it_is():
    assert RelaySettings(dsn="", lease=22.0).lease_seconds(20.0, "shop") == 22.0


def test_without_a_lease_each_destination_gets_what_it_needs():
    settings = RelaySettings(dsn="")
    assert settings.lease_seconds(400.0, "mail") == 410.0
    assert settings.lease_seconds(1.0, "quick") == 30.0
    with pytest.raises(InvalidSettings, match="leaves no time"):
        RelaySettings(dsn="", lease=2.0)


def test_a_server_with_too_few_connections_is_refused_with_the_numbers(database, monkeypatch):
    monkeypatch.setattr(bootstrap, "CONNECTIONS", 10_000)
    with (
        psycopg.connect(database.dsn, autocommit=True) as connection,
        pytest.raises(InvalidSettings, match=r"needs 10000 connections, the server has \d+ free of \d+"),
    ):
        bootstrap._check_connections(connection)


def test_a_destination_this_relay_cannot_serve_does_not_stop_the_others(database):
    with database.connect() as connection:
        add_destination(connection, "odd", sink="no-such-sink")
        with relay_process(database.dsn, "--drain") as relay:
            assert relay.ended() == 0
        assert "destination odd is not served here: no sink 'no-such-sink' is installed here" in relay.output
        assert count(connection, "relays") == 1
