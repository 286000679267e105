"""Events are checked before anything is sent, and become text that every driver sends alike."""

from __future__ import annotations

import datetime as dt
import enum
import json

import pytest

from outbox import Event
from outbox.drafts import draft_event
from outbox.errors import InvalidEvent
from outbox.statements import record_many, record_one

KOLKATA = dt.timezone(dt.timedelta(hours=5, minutes=30))


@pytest.mark.parametrize("type_", ["order", "order.paid", "Order_2.PAID.x", "a" * 200])
def test_dotted_words_are_types(type_):
    assert draft_event(Event(type_)).type == type_


@pytest.mark.parametrize(
    "type_", ["", ".", "a.", ".a", "a..b", "a b", "é", "a-b", "a\n", "*", "order.*", None, 1, b"a"]
)
def test_other_text_is_no_type(type_):
    with pytest.raises(InvalidEvent, match=r"type: .* is not dotted words"):
        draft_event(Event(type_))


def test_a_type_of_more_than_200_characters_is_refused():
    with pytest.raises(InvalidEvent, match="201 characters are too many"):
        draft_event(Event("a" * 201))


@pytest.mark.parametrize("name", ["key", "idempotency_key"])
@pytest.mark.parametrize(("value", "fault"), [("", "0 characters"), ("x" * 256, "256 characters"), (1, "not str")])
def test_keys_are_text_of_1_to_255_characters(name, value, fault):
    with pytest.raises(InvalidEvent, match=f"{name}: .*{fault}"):
        draft_event(Event("a", **{name: value}))


@pytest.mark.parametrize("name", ["key", "idempotency_key", "destination"])
@pytest.mark.parametrize(("value", "fault"), [("a\0b", "NUL"), ("\ud800", "surrogate")])
def test_t08_keys_and_names_that_postgresql_cannot_store_are_refused(name, value, fault):
    with pytest.raises(InvalidEvent, match=f"{name}: .*{fault}"):
        draft_event(Event("a", **{name: value}))


def test_t15_a_time_keeps_its_offset():
    due_at = dt.datetime(2026, 12, 1, 9, 30, tzinfo=KOLKATA)
    assert draft_event(Event("a", due_at=due_at)).due_at == "2026-12-01T09:30:00+05:30"


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"due_at": dt.datetime(2026, 12, 1)}, "due_at: is not a datetime with a time zone"),  # noqa: DTZ001 - the fault
        ({"due_at": "2026-12-01T00:00:00Z"}, "due_at: is not a datetime"),
        ({"due_at": dt.datetime(9999, 1, 1, tzinfo=dt.UTC)}, "due_at: is after the year 9998"),
        ({"due_at": dt.datetime(2026, 12, 1, tzinfo=dt.UTC), "delay": 1}, "due_at: is given together with delay"),
        ({"delay": -1}, "delay: -1"),
        ({"delay": float("nan")}, "delay: nan"),
        ({"delay": True}, "delay: True"),
        ({"delay": "5s"}, "delay: '5s'"),
        ({"delay": dt.timedelta(days=4000)}, "delay: .* ten years"),
    ],
)
def test_times_that_make_no_sense_are_refused(arguments, fault):
    with pytest.raises(InvalidEvent, match=fault):
        draft_event(Event("a", **arguments))


def test_a_delay_is_left_to_the_clock_of_the_database():
    statement = record_one(draft_event(Event("a", delay=dt.timedelta(minutes=5))))
    assert "clock_timestamp() + make_interval" in statement.template
    assert statement.parameters[5] == "300.0"


def test_many_events_are_one_json_parameter_with_only_what_was_given():
    due_at = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)
    statement = record_many(
        [
            draft_event(Event("a")),
            draft_event(
                Event("b", [1], 'k"', "i", {"x": "y"}, due_at=due_at, destination="shop"),
            ),
            draft_event(Event("c", delay=1.5)),
        ]
    )
    assert json.loads(statement.parameters[0]) == [
        {"type": "a", "payload": {}},
        {
            "type": "b",
            "payload": [1],
            "headers": {"x": "y"},
            "key": 'k"',
            "idempotency_key": "i",
            "due_at": "2026-12-01T00:00:00+00:00",
            "destination": "shop",
        },
        {"type": "c", "payload": {}, "delay_seconds": 1.5},
    ]


def test_placeholders_follow_the_style_of_the_driver():
    statement = record_one(draft_event(Event("a")))
    assert statement.with_percents.count("%s") == 7
    assert all(f"${number}::text" in statement.with_dollars for number in range(1, 8))


class Topic(str, enum.Enum):  # noqa: UP042 - as older code has them: formatted, they write their name
    PAID = "order.paid"


def test_an_enum_that_is_a_str_is_its_value_alone_and_in_a_batch():
    draft = draft_event(Event(Topic.PAID, key=Topic.PAID, idempotency_key=Topic.PAID, destination=Topic.PAID))
    assert {type(text) for text in (draft.type, draft.key, draft.idempotency_key, draft.destination)} == {str}
    [entry] = json.loads(record_many([draft]).parameters[0])
    assert (entry["type"], entry["key"]) == ("order.paid", "order.paid")


@pytest.mark.parametrize("headers", [None, ["x-a"], [("x-a", "b")], "x-a: b"])
def test_headers_that_are_no_mapping_are_refused(headers):
    with pytest.raises(InvalidEvent, match=r"headers: is (NoneType|list|str), not a dict"):
        draft_event(Event("a", headers=headers))
