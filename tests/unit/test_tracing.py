"""The caller's trace context travels with the event, when the application itself uses OpenTelemetry."""

from __future__ import annotations

import json

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState, use_span

from outbox import Event
from outbox.drafts import draft_event
from outbox.tracing import trace_headers

CONTEXT = SpanContext(
    trace_id=0x0AF7651916CD43DD8448EB211C80319C,
    span_id=0xB7AD6B7169203331,
    is_remote=False,
    trace_flags=TraceFlags(TraceFlags.SAMPLED),
    trace_state=TraceState([("vendor", "value")]),
)
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def headers_of(event: Event) -> dict:
    return json.loads(draft_event(event).headers)


def test_without_a_span_nothing_is_captured():
    assert trace_headers() == {}
    assert headers_of(Event("a")) == {}


def test_the_current_span_is_captured_as_w3c_trace_context():
    with use_span(NonRecordingSpan(CONTEXT)):
        assert headers_of(Event("a", headers={"x-a": "b"})) == {
            "x-a": "b",
            "traceparent": TRACEPARENT,
            "tracestate": "vendor=value",
        }


def test_a_recording_span_of_the_sdk_is_captured():
    with TracerProvider().get_tracer("test").start_as_current_span("checkout"):
        context = trace.get_current_span().get_span_context()
        assert headers_of(Event("a")) == {
            "traceparent": f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
        }


def test_a_given_trace_context_is_kept():
    with use_span(NonRecordingSpan(CONTEXT)):
        assert headers_of(Event("a", headers={"Traceparent": "00-1"})) == {"Traceparent": "00-1"}


def test_a_full_set_of_headers_leaves_room_for_the_trace():
    headers = {f"x-{number}": "1" for number in range(20)}
    with use_span(NonRecordingSpan(CONTEXT)):
        assert len(headers_of(Event("a", headers=headers))) == 22
