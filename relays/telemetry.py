"""Traces attempts with OpenTelemetry (extra `otel`): each is a span, connected with the one that recorded the event.

The first attempt is a child of the recorder's span. A later one is a trace of its own with a link to the recorder's:
it may come a day after, and a trace that grows for days cannot be read. A span holds names and codes, never a payload
and never what a receiver answered.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from relays import __version__
from relays.results import Refused

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

    from relays.deliveries import Delivery
    from relays.results import Result
    from relays.sinks import Sink

__all__ = ["TracedSink", "Tracing", "start_tracing"]

SHUTDOWN_SECONDS = 2.0
"""How long the last spans may take to leave: a collector that is away must not delay the end of a relay."""

_propagator = TraceContextTextMapPropagator()


class TracedSink:
    """A sink whose attempts are spans; the span is current while the sink sends, so what it calls nests in it."""

    def __init__(self, sink: Sink, tracer: Tracer) -> None:
        self._sink = sink
        self._tracer = tracer

    async def send(self, delivery: Delivery) -> Result:
        """Send within a span, which the receiver sees as its parent in `traceparent`."""
        began = time.monotonic()
        with self._begin(delivery) as span:
            _hand_on(delivery)
            try:
                result = await self._sink.send(delivery)
            except asyncio.CancelledError:
                is_late = time.monotonic() - began >= delivery.deadline_seconds
                _fail(span, "timeout" if is_late else "cancelled")
                raise
            except BaseException as error:
                _fail(span, type(error).__name__)  # not its text: that may hold what must not be seen
                raise
            _end(span, result)
        return result

    def _begin(self, delivery: Delivery) -> Any:
        """Start the span of an attempt, as a child of the recorder's or linked to it."""
        recorded = _propagator.extract(delivery.headers, Context())
        recorder = trace.get_current_span(recorded).get_span_context()
        is_first = delivery.attempt == 1
        destination = delivery.destination
        is_handled = destination.sink == "handler"
        return self._tracer.start_as_current_span(
            f"{'process' if is_handled else 'send'} {destination.name}",
            context=recorded if is_first else Context(),
            kind=SpanKind.CONSUMER if is_handled else SpanKind.PRODUCER,
            links=[Link(recorder)] if recorder.is_valid and not is_first else [],
            attributes={
                "messaging.system": "outbox",
                "messaging.operation.type": "process" if is_handled else "send",
                "messaging.destination.name": destination.name,
                "messaging.message.id": delivery.event_id,
                "outbox.sink": destination.sink,
                "outbox.event.type": delivery.type,
                "outbox.delivery.id": delivery.id,
                "outbox.attempt": delivery.attempt,
            },
            record_exception=False,
            set_status_on_exception=False,
        )


def _hand_on(delivery: Delivery) -> None:
    """Replace the recorder's trace context in the event's headers by that of the attempt."""
    carried = {name: value for name, value in delivery.headers.items() if name not in _propagator.fields}
    _propagator.inject(carried)
    delivery.headers_json = json.dumps(carried).encode()


def _end(span: Span, result: Result) -> None:
    if result.status is not None:
        span.set_attribute("outbox.status", result.status)
    if isinstance(result, Refused):
        span.set_attribute("outbox.certainty", result.certainty.value)
        _fail(span, result.reason)


def _fail(span: Span, reason: str) -> None:
    span.set_attribute("error.type", reason)
    span.set_status(StatusCode.ERROR, reason)


class Tracing:
    """The tracer of this process, and how its last spans get out. `owned` is the provider made here, if one was."""

    def __init__(self, provider: TracerProvider, owned: Any = None) -> None:
        self._tracer = provider.get_tracer("outbox-relay", __version__)
        self._owned = owned

    def around(self, sink: Sink) -> Sink:
        """Return `sink` with its attempts traced."""
        return TracedSink(sink, self._tracer)

    def close(self) -> None:
        """Send the last spans, for as long as that may take; a provider of the application is its own business."""
        if self._owned is not None:
            leaving = threading.Thread(target=self._owned.shutdown, daemon=True)
            leaving.start()
            leaving.join(SHUTDOWN_SECONDS)


def start_tracing() -> Tracing:
    """Return the tracing of this process, through the provider that an `--app` module or the agent has set.

    Without one spans go where the `OTEL_*` variables say: OTLP over HTTP, by default to localhost:4318.

    Raises:
        ImportError: there is no provider, and the extra `otel` is not installed.
    """
    provider = trace.get_tracer_provider()
    if not isinstance(provider, trace.ProxyTracerProvider):
        return Tracing(provider)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider as SdkProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    ours = Resource({"service.name": "outbox-relay", "service.version": __version__})
    named = ours.merge(OTELResourceDetector().detect())  # what the environment says wins
    owned = SdkProvider(resource=named, shutdown_on_exit=False)
    owned.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(owned)
    return Tracing(owned, owned)
