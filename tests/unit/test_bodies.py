from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from hypothesis import given
from hypothesis import strategies as st

from outbox.webhooks import verify
from relays.sinks.webhook.bodies import BodyFormat, body_bytes, body_headers, content_type, timestamp
from relays.sinks.webhook.endpoint import resolve_endpoint
from relays.sinks.webhook.request import request_of
from relays.sinks.webhook.settings import parse_settings
from tests.webhook_deliveries import EVENT_ID, SECRET, delivery, destination

SHOP = destination("https://shop.example/hooks")
FORMATS = list(BodyFormat)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.decimals(allow_nan=False, allow_infinity=False).map(str),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
payloads = json_values.map(lambda value: json.dumps(value, ensure_ascii=False).encode())
types = st.from_regex(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+){0,4}", fullmatch=True)
zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(min_value=datetime(1970, 1, 2), timezones=zones)  # noqa: DTZ001 - the zone comes along


def event(body_format, **values):
    one = delivery(SHOP, **values)
    headers = {"content-type": content_type(body_format), **body_headers(body_format, one, "https://shop.example")}
    return body_bytes(body_format, one, "https://shop.example"), headers


def test_standard_body_has_type_timestamp_and_the_payload_as_recorded():
    assert event(BodyFormat.STANDARD, body=b'{"b": 1.10, "a": [9007199254740993, -0.0]}')[0] == (
        b'{"type":"order.paid","timestamp":"2026-12-01T00:00:00Z","data":{"b": 1.10, "a": [9007199254740993, -0.0]}}'
    )


def test_raw_body_is_the_payload():
    assert event(BodyFormat.RAW, body=b'"x"') == (b'"x"', {"content-type": "application/json"})


@given(body=payloads, event_type=types, moment=moments, key=st.none() | st.text(min_size=1), attempt=st.integers(1, 99))
@pytest.mark.parametrize("body_format", FORMATS)
def test_w01_body_is_valid_json_and_the_same_bytes_on_every_attempt(
    *, body_format, body, event_type, moment, key, attempt
):
    values = {"body": body, "type": event_type, "recorded_at": moment, "key": key}
    first, later = (event(body_format, **values, attempt=number) for number in (1, attempt))
    assert first == later
    parsed = json.loads(first[0], parse_float=Decimal)
    inner = parsed if body_format in {BodyFormat.RAW, BodyFormat.CLOUDEVENTS_BINARY} else parsed["data"]
    assert inner == json.loads(body, parse_float=Decimal)
    assert body in first[0]


@given(body=payloads, attempt=st.integers(1, 99), minutes=st.integers(0, 10_000))
@pytest.mark.parametrize("body_format", [str(name) for name in FORMATS])
def test_w01_what_is_signed_is_what_is_sent_on_every_attempt(body_format, body, attempt, minutes):
    now = datetime(2026, 12, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    endpoint = resolve_endpoint(parse_settings({"url": "https://shop.example", "secret": SECRET, "body": body_format}))
    request = request_of(endpoint, delivery(SHOP, body=body, attempt=attempt), now.timestamp())
    assert verify(request.headers, request.body, SECRET, now=now.timestamp()) == EVENT_ID
    assert request.headers["webhook-attempt"] == str(attempt)
    assert request.headers["idempotency-key"] == f'"{EVENT_ID}"'


@given(body=payloads, event_type=types, moment=moments, key=st.none() | st.text(min_size=1))
@pytest.mark.parametrize("body_format", [BodyFormat.CLOUDEVENTS, BodyFormat.CLOUDEVENTS_BINARY])
def test_cloudevents_sdk_reads_what_was_recorded(body_format, body, event_type, moment, key):
    sent, headers = event(body_format, body=body, type=event_type, recorded_at=moment, key=key)
    read = from_http_event(HTTPMessage(headers, sent))
    assert read.get_specversion() == "1.0"
    assert read.get_id() == EVENT_ID
    assert read.get_source() == "https://shop.example"
    assert read.get_type() == event_type
    assert read.get_time() == moment
    assert read.get_datacontenttype() == "application/json"
    assert read.get_extension("partitionkey") == key
    assert read.get_data() == json.loads(body)


@given(moments)
def test_timestamp_is_utc_and_reads_back_to_the_same_moment(moment):
    written = timestamp(moment)
    assert written.endswith("Z")
    assert datetime.fromisoformat(written) == moment


def test_timestamp_does_not_depend_on_the_zone_it_was_read_in():
    moment = datetime(2026, 12, 1, 0, 0, 0, 123456, tzinfo=UTC)
    assert timestamp(moment) == timestamp(moment.astimezone(timezone(timedelta(hours=5, minutes=30))))
    assert timestamp(moment) == "2026-12-01T00:00:00.123456Z"
