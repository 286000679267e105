"""The relay: claims deliveries, sends them through sinks, settles what became of them."""

from importlib.metadata import version

__all__ = ["__version__"]

__version__ = version("outbox-relay")
