"""The trace context of the caller, captured when an event is recorded. No dependency on OpenTelemetry."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["trace_headers"]


def trace_headers() -> dict[str, str]:
    """Return `traceparent` (and `tracestate`) of the current OpenTelemetry span, or nothing.

    Looks only when the application itself has loaded OpenTelemetry: importing it here would cost everybody else
    its start-up time. The format is W3C Trace Context, version 00.
    """
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return {}
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    headers = {"traceparent": f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"}
    if context.trace_state:
        headers["tracestate"] = context.trace_state.to_header()
    return headers
