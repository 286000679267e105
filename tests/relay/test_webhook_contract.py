"""The webhook sink keeps the contract of sinks."""

from __future__ import annotations

import socket
from contextlib import contextmanager

from relays.sinks.testing import Behaviour, Receiver, Sent, SinkContract
from relays.sinks.webhook import WebhookSink
from tests import receivers
from tests.webhook_deliveries import LOOPBACK, SECRET


class TestWebhookSink(SinkContract):
    sink_class = WebhookSink
    wrong_settings = ({}, {"url": "not a URL"}, {"url": "https://shop.example", "colour": "red"})

    @contextmanager
    def receiving(self, behaviour):
        scripts = {Behaviour.REFUSES: receivers.status(500), Behaviour.HANGS: receivers.hanging()}
        with receivers.Receiver(scripts.get(behaviour, receivers.status(200))) as receiver, nobody() as port:
            url = receiver.url() if behaviour is not Behaviour.AWAY else f"http://127.0.0.1:{port}/hooks"
            settings = {"url": url, "secret": SECRET, **LOOPBACK}
            yield Receiver(settings, lambda: [Sent(one.header("webhook-id"), one.body) for one in receiver.requests])


@contextmanager
def nobody():
    """Yield a port that is bound, so that no other test gets it, and never listened on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]
