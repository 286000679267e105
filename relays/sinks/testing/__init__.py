"""What every sink must keep to, as tests: subclass `SinkContract` in a test module and run pytest.

Nothing here imports a test library, and the relay never imports this.
"""

from relays.sinks.testing.contract import SinkContract
from relays.sinks.testing.receiving import Behaviour, Receiver, Sent
from relays.sinks.testing.samples import make_delivery, make_destination

__all__ = ["Behaviour", "Receiver", "Sent", "SinkContract", "make_delivery", "make_destination"]
