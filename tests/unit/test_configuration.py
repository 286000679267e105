"""`outbox.toml`: what it says, and what has to change."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from outbox.configuration import differences, parse_configuration
from outbox.errors import InvalidSettings
from outbox.model import Destination, DestinationState

SHOP = """
[destinations.shop]
sink = "webhook"
events = ["order.*"]
url = "https://shop.example/hooks"
secret = ["env:NEW", "env:OLD"]
[destinations.shop.policy]
max_attempts = 10
schedule = ["5s", "5m"]
"""


def stored(name="shop", **changes) -> Destination:
    [wanted] = parse_configuration(SHOP, "outbox.toml")
    values = {
        "id": 1,
        "name": name,
        "sink": wanted.sink,
        "event_types": wanted.event_types,
        "settings": wanted.settings,
        "policy": wanted.policy,
        "state": DestinationState.ACTIVE,
        "state_reason": None,
        "state_changed_at": datetime.now(UTC),
        "held_until": None,
        "version": 1,
    }
    return Destination(**{**values, **changes})


def test_what_is_no_word_of_ours_is_a_setting_of_the_sink():
    [shop] = parse_configuration(SHOP, "outbox.toml")
    assert (shop.sink, shop.event_types) == ("webhook", ("order.*",))
    assert shop.settings == {"url": "https://shop.example/hooks", "secret": ["env:NEW", "env:OLD"]}
    assert shop.policy == {"max_attempts": 10, "schedule": ["5s", "5m"]}


def test_a_file_that_says_what_is_stored_changes_nothing():
    [change] = differences(parse_configuration(SHOP, "f"), [stored()], prune=True)
    assert (change.verb, change.differences) == ("keep", ())


def test_each_differing_value_is_named():
    other = stored(event_types=("*",), settings={"url": "https://old.example/", "allow_http": True}, policy={})
    [change] = differences(parse_configuration(SHOP, "f"), [other], prune=False)
    assert change.verb == "change"
    assert [(d.part, d.key, d.before, d.after) for d in change.differences] == [
        ("events", "", ["*"], ["order.*"]),
        ("settings", "allow_http", True, None),
        ("settings", "secret", None, ["env:NEW", "env:OLD"]),
        ("settings", "url", "https://old.example/", "https://shop.example/hooks"),
        ("policy", "max_attempts", None, 10),
        ("policy", "schedule", None, ["5s", "5m"]),
    ]


@pytest.mark.parametrize(("prune", "verb"), [(False, "keep"), (True, "remove")])
def test_what_the_file_does_not_name_goes_only_with_prune(prune, verb):
    changes = differences(parse_configuration(SHOP, "f"), [stored("old")], prune=prune)
    assert [(change.name, change.verb) for change in changes] == [("old", verb), ("shop", "add")]


def test_another_sink_is_refused_since_what_is_open_was_meant_for_the_old_one():
    with pytest.raises(InvalidSettings, match="first `outbox destinations remove shop`"):
        differences(parse_configuration(SHOP, "f"), [stored(sink="email")], prune=False)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[destinations", "f is not TOML"),
        ("[destination.shop]\nsink='x'", r"'destination' is not known; write \[destinations.NAME\]"),
        ("destinations = 3", "destinations is not a table"),
        ("[destinations]\nshop = 3", "destinations.shop is not a table"),
        ("[destinations.shop]\nevents = ['*']", "destinations.shop: which sink"),
        ("[destinations.shop]\nsink = 'webhook'\nevents = '*'", r"destinations.shop.events is not a list"),
        ("[destinations.shop]\nsink = 'webhook'\npolicy = 3", r"destinations.shop.policy is not a table"),
        ("[destinations.shop]\nsink = 'webhook'\nsince = 2026-01-01", r"destinations.shop.since is a date"),
        ("[destinations.shop]\nsink = 'webhook'\nlist = [{at = 10:00:00}]", r"destinations.shop.list is a date"),
    ],
)
def test_what_is_no_configuration_is_refused_with_the_place(text, says):
    with pytest.raises(InvalidSettings, match=says):
        parse_configuration(text, "f")
