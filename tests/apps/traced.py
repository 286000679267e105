"""An application that traces: spans go to the file that TRACES names, one JSON object a line."""

from __future__ import annotations

import os
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

import relays

lines = Path(os.environ["TRACES"]).open("a", buffering=1)  # noqa: SIM115, TID251 - open while the relay runs; the test's own
exporter = ConsoleSpanExporter(out=lines, formatter=lambda span: span.to_json(indent=None) + "\n")
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)


@relays.handler("order.paid")
def paid(delivery):
    with trace.get_tracer("shop").start_as_current_span("post to ledger"):
        return delivery.payload
