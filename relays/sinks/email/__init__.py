"""Mail through a submission server."""

from relays.sinks.email.sink import EmailSink

__all__ = ["EmailSink"]
