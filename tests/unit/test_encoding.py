"""Payloads become JSON text digit by digit, or are refused with the path."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
import math
import uuid
from decimal import Decimal
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.encoding import JsonText, encode_payload
from outbox.errors import InvalidEvent

text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20)
    | text
)
payloads = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4), max_leaves=20
)


def as_decimals(value):
    """Return `value` with its numbers as exact decimals of what they print as."""
    match value:
        case bool() | None | str():
            return value
        case int() | Decimal():
            return Decimal(value)
        case float():
            return Decimal(repr(value))
        case dict():
            return {key: as_decimals(item) for key, item in value.items()}
        case _:
            return [as_decimals(item) for item in value]


@given(payloads)
def test_what_is_encoded_reads_back_equal_with_every_digit(payload):
    read = json.loads(encode_payload(payload), parse_float=Decimal, parse_int=Decimal)
    assert read == as_decimals(payload)


@pytest.mark.parametrize(
    ("payload", "encoded"),
    [
        ({"a": 9007199254740993}, '{"a": 9007199254740993}'),
        ({"a": Decimal("1.10"), "b": [Decimal("0E-10")]}, '{"a": 1.10, "b": [0E-10]}'),
        ([1, (2, 3)], "[1, [2, 3]]"),
        ("é😀", '"é😀"'),
        (r"\u0000", r'"\\u0000"'),
        (None, "null"),
        (True, "true"),
    ],
)
def test_t11_digits_and_text_are_kept_as_they_are(payload, encoded):
    assert encode_payload(payload) == encoded


def test_members_of_string_and_integer_enums_are_their_values():
    color = enum.StrEnum("Color", {"RED": "red"})
    level = enum.IntEnum("Level", {"HIGH": 3})
    assert encode_payload({"color": color.RED, "level": level.HIGH}) == '{"color": "red", "level": 3}'


@dataclasses.dataclass
class Order:
    number: int


class Point(NamedTuple):
    x: int


@pytest.mark.parametrize(
    ("payload", "path", "kind"),
    [
        (float("nan"), "$", "float"),
        ({"a": [1, {"b": math.inf}]}, "$.a[1].b", "float"),
        ([-math.inf], "$[0]", "float"),
        ({"a": Decimal("NaN")}, "$.a", "Decimal"),
        ({"a": Decimal("1E+200000")}, "$.a", "Decimal"),
        ({"a": dt.datetime(2026, 12, 1, tzinfo=dt.UTC)}, "$.a", "datetime"),
        ({"a b": b"x"}, '$."a b"', "bytes"),
        ({"a": {1}}, "$.a", "set"),
        ({"a": {1: 2}}, "$.a", "int"),
        ({True: 2}, "$", "bool"),
        ({None: 2}, "$", "NoneType"),
        ({"a": uuid.UUID(int=1)}, "$.a", "UUID"),
        ({"a": Order(1)}, "$.a", "Order"),
        ({"a": Point(1)}, "$.a", "Point"),
        ({"a": JsonText("1")}, "$.a", "JsonText"),
    ],
)
def test_t09_what_is_no_json_is_refused_with_path_and_type(payload, path, kind):
    with pytest.raises(InvalidEvent) as refused:
        encode_payload(payload)
    assert str(refused.value).startswith(f"payload: {path}: ")
    assert kind in str(refused.value)


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        ({"a": "x\0y"}, "$.a"),
        ({"a": [{"b": "\0"}]}, "$.a[0].b"),
        ({"a": {"b\0": 1}}, '$.a."b\\u0000"'),
        (JsonText('{"a": "x\\u0000y"}'), "$.a"),
    ],
)
def test_t08_nul_is_refused_with_its_path(payload, path):
    with pytest.raises(InvalidEvent) as refused:
        encode_payload(payload)
    assert str(refused.value).startswith(f"payload: {path}: NUL (\\u0000) is not storable in PostgreSQL")


@pytest.mark.parametrize(
    "payload", [{"a": "\ud800"}, {"\udfff": 1}, JsonText('"\ud800"'), JsonText('"\\ud800"'), JsonText('"\\uDFFF"')]
)
def test_half_of_a_surrogate_pair_is_refused(payload):
    with pytest.raises(InvalidEvent, match="surrogate"):
        encode_payload(payload)


def test_a_payload_that_contains_itself_is_refused():
    payload = []
    payload.append(payload)
    with pytest.raises(InvalidEvent, match="deeper than 200 levels"):
        encode_payload(payload)


def test_two_hundred_levels_are_fine():
    payload = []
    for _ in range(199):
        payload = [payload]
    assert encode_payload(payload) == "[" * 200 + "]" * 200


def test_an_integer_of_thousands_of_digits_is_refused():
    with pytest.raises(InvalidEvent, match=r"payload: \$\.a: an integer"):
        encode_payload({"a": 10**5000})


@pytest.mark.parametrize(
    "text", ['{"b":1.10, "a":"\\\\u0000"}', '"\\ud83d\\ude00"', "[" * 300 + '"\\uD83D\\uDE00"' + "]" * 300]
)
def test_json_text_passes_as_it_is(text):
    assert encode_payload(JsonText(text)) == text


def test_json_text_with_a_nul_too_deep_to_find_is_refused():
    with pytest.raises(InvalidEvent, match="deeper than 200 levels"):
        encode_payload(JsonText("[" * 50_000 + '"\\u0000"' + "]" * 50_000))


def test_refusals_never_show_a_value():
    with pytest.raises(InvalidEvent) as refused:
        encode_payload({"card": ["SECRET-1", b"SECRET-2", {"pin": "SECRET-3\0"}]})
    assert "SECRET" not in str(refused.value)


def test_json_text_of_bytes_is_refused():
    with pytest.raises(InvalidEvent, match="payload: JsonText holds bytes, not str"):
        encode_payload(JsonText(b"{}"))
