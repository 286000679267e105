"""Webhooks as Standard Webhooks describes them, with the guards that specification asks for."""

from relays.sinks.webhook.sink import WebhookSink

__all__ = ["WebhookSink"]
