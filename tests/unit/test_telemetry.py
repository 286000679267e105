"""A traced attempt is a span: child of the recorder's at first, linked with it later, and never holds a payload."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from outbox.model import Certainty, Destination, DestinationState
from outbox.tracing import trace_headers
from relays.deliveries import Delivery
from relays.results import Delivered, Refused
from relays.telemetry import Tracing

RECORDER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Scripted:
    """A sink that answers as told and keeps what it was given."""

    def __init__(self, answer):
        self.answer = answer
        self.seen: list[dict[str, str]] = []
        self.current = None

    async def send(self, delivery):
        self.seen.append(dict(delivery.headers))
        self.current = trace.get_current_span()
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.fixture
def spans():
    return InMemorySpanExporter()


@pytest.fixture
def tracing(spans):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return Tracing(provider)


def a_delivery(*, attempt=1, headers=None, sink="webhook", deadline_seconds=20.0) -> Delivery:
    now = datetime.now(UTC)
    return Delivery(
        id=7,
        event_id="0198a0b2-7c00-7000-8000-00000000abcd",
        destination=Destination(
            id=1,
            name="shop",
            sink=sink,
            event_types=("*",),
            settings={},
            policy={},
            state=DestinationState.ACTIVE,
            state_reason=None,
            state_changed_at=now,
            held_until=None,
            version=1,
        ),
        attempt=attempt,
        type="order.paid",
        body=b'{"card":"SECRET8"}',
        headers_json=json.dumps({"traceparent": RECORDER} if headers is None else headers).encode(),
        key=None,
        recorded_at=now,
        deadline_seconds=deadline_seconds,
    )


def send(tracing, answer, delivery=None):
    sink = Scripted(answer)
    asyncio.run(tracing.around(sink).send(delivery or a_delivery()))
    return sink


def test_the_first_attempt_is_a_child_of_the_span_that_recorded(tracing, spans):
    send(tracing, Delivered(status=200))
    [span] = spans.get_finished_spans()
    assert f"{span.context.trace_id:032x}" == RECORDER.split("-")[1]
    assert f"{span.parent.span_id:016x}" == RECORDER.split("-")[2]
    assert (span.name, span.kind, span.status.status_code) == ("send shop", SpanKind.PRODUCER, StatusCode.UNSET)
    assert span.attributes["outbox.status"] == 200
    assert span.attributes["messaging.message.id"] == "0198a0b2-7c00-7000-8000-00000000abcd"


def test_a_retry_is_a_trace_of_its_own_that_links_to_the_recorder(tracing, spans):
    send(tracing, Delivered(), a_delivery(attempt=2))
    [span] = spans.get_finished_spans()
    assert span.parent is None
    assert f"{span.context.trace_id:032x}" != RECORDER.split("-")[1]
    [link] = span.links
    assert f"{link.context.trace_id:032x}-{link.context.span_id:016x}" == "-".join(RECORDER.split("-")[1:3])


def test_an_event_recorded_without_a_span_starts_a_trace(tracing, spans):
    send(tracing, Delivered(), a_delivery(headers={}))
    [span] = spans.get_finished_spans()
    assert span.parent is None
    assert not span.links


def test_the_receiver_continues_the_attempt_and_keeps_the_other_headers(tracing, spans):
    headers = {"traceparent": RECORDER, "tracestate": "shop=1", "tenant": "acme"}
    sink = send(tracing, Delivered(), a_delivery(headers=headers))
    [span] = spans.get_finished_spans()
    seen = sink.seen[0]
    assert seen["traceparent"].split("-")[1:3] == [f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"]
    assert (seen["tracestate"], seen["tenant"]) == ("shop=1", "acme")


def test_the_span_is_current_while_the_sink_sends(tracing, spans):
    sink = send(tracing, Delivered(), a_delivery(sink="handler"))
    [span] = spans.get_finished_spans()
    assert sink.current.get_span_context() == span.get_span_context()
    assert (span.name, span.kind) == ("process shop", SpanKind.CONSUMER)


def test_a_refusal_is_an_error_with_its_reason_alone(tracing, spans):
    send(tracing, Refused("http_500", "the receiver said SECRET4", status=500, certainty=Certainty.ANSWERED))
    [span] = spans.get_finished_spans()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "http_500")
    assert (span.attributes["error.type"], span.attributes["outbox.certainty"]) == ("http_500", "answered")
    assert "SECRET" not in span.to_json()


def test_w12_what_a_sink_raises_is_named_but_not_quoted(tracing, spans):
    with pytest.raises(ValueError, match="SECRET4"):
        send(tracing, ValueError("Bearer SECRET4"))
    [span] = spans.get_finished_spans()
    assert span.attributes["error.type"] == "ValueError"
    assert "SECRET" not in span.to_json()


@pytest.mark.parametrize(("deadline_seconds", "reason"), [(0.0, "timeout"), (60.0, "cancelled")])
def test_a_cancelled_attempt_ends_its_span(tracing, spans, deadline_seconds, reason):
    with pytest.raises(asyncio.CancelledError):
        send(tracing, asyncio.CancelledError(), a_delivery(deadline_seconds=deadline_seconds))
    [span] = spans.get_finished_spans()
    assert span.attributes["error.type"] == reason


def test_what_is_recorded_within_a_span_names_that_span(tracing, spans):
    """The recorder and the relay agree on the format: record, then deliver, is one trace."""
    provider = TracerProvider()
    with provider.get_tracer("shop").start_as_current_span("order") as order:
        headers = trace_headers()
    send(tracing, Delivered(), a_delivery(headers=headers))
    [span] = spans.get_finished_spans()
    assert span.parent.span_id == order.get_span_context().span_id
