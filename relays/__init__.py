"""The relay: claims deliveries, sends them through sinks, settles what became of them.

What application code needs of it: `handler` registers a Python function, which gets a `Delivery`, may raise
`RetryLater` or `GiveUp`, and may return `Delivered` or `Refused`.
"""

from importlib.metadata import version

from relays.deliveries import Delivery
from relays.results import Delivered, Refused
from relays.sinks.handler import GiveUp, RetryLater, handler

__all__ = ["Delivered", "Delivery", "GiveUp", "Refused", "RetryLater", "__version__", "handler"]

__version__ = version("outbox-relay")
