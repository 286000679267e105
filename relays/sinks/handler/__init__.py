"""Python functions as destinations."""

from relays.sinks.handler.app import load_app
from relays.sinks.handler.outcomes import GiveUp, RetryLater
from relays.sinks.handler.registry import handler
from relays.sinks.handler.sink import HandlerSink

__all__ = ["GiveUp", "HandlerSink", "RetryLater", "handler", "load_app"]
