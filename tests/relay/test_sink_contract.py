"""Every built-in sink keeps the contract of sinks."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import contextmanager
from email import message_from_bytes

import pytest

from relays.results import Refused
from relays.sinks.email import EmailSink
from relays.sinks.handler import HandlerSink
from relays.sinks.handler.registry import Handler, Registry
from relays.sinks.testing import Behaviour, Receiver, Sent, SinkContract
from relays.sinks.webhook import WebhookSink
from tests import receivers
from tests.mail_server import MailServer, every, hang, reply


@contextmanager
def unused_port():
    """Yield a port nobody listens on: bound, so that no other test gets it, and never listened on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


class TestWebhookSink(SinkContract):
    sink_class = WebhookSink
    wrong_settings = ({}, {"url": "not a URL"}, {"url": "https://shop.example", "colour": "red"})

    @contextmanager
    def receiving(self, behaviour):
        scripts = {Behaviour.REFUSES: receivers.status(500), Behaviour.HANGS: receivers.hanging()}
        with receivers.Receiver(scripts.get(behaviour, receivers.status(200))) as receiver, unused_port() as nobody:
            url = receiver.url() if behaviour is not Behaviour.AWAY else f"http://127.0.0.1:{nobody}/hooks"
            settings = {
                "url": url,
                "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                "allow_http": True,
                "allow_networks": ["127.0.0.0/8"],
            }
            yield Receiver(settings, lambda: [Sent(one.header("webhook-id"), one.body) for one in receiver.requests])


@pytest.mark.filterwarnings("ignore:Requiring AUTH")
class TestEmailSink(SinkContract):
    sink_class = EmailSink
    body = b'{"to": "ada@example.com", "subject": "Your order", "text": "Thank you."}'
    wrong_settings = ({}, {"host": "mail.test", "security": "none"}, {"host": "mail.test", "colour": "red"})

    @contextmanager
    def receiving(self, behaviour):
        faults = {
            Behaviour.REFUSES: {"FINAL": every(reply("451 4.2.0 try again later", stores=True))},
            Behaviour.HANGS: {"DATA": every(hang())},
        }
        users = {"shop": "correct horse battery"}
        with MailServer(users=users, **faults.get(behaviour, {})) as server, unused_port() as nobody:
            settings = {
                "host": "127.0.0.1",
                "port": nobody if behaviour is Behaviour.AWAY else server.port,
                "security": "plain",
                "from": "shop@example.com",
                "username": "shop",
                "password": "correct horse battery",
            }
            yield Receiver(settings, lambda: [_seen(mail) for mail in server.mails])


def _seen(mail):
    return Sent(message_from_bytes(mail.content)["Message-ID"], mail.content)


class HandlerContract(SinkContract):
    """`sent` is what the handler was called with; nobody there is no handler registered."""

    sink_class = HandlerSink
    wrong_settings = ()

    @contextmanager
    def receiving(self, behaviour):
        self.registry = Registry()
        self.calls = []
        with self.handling(behaviour) as handler:
            if behaviour is not Behaviour.AWAY:
                self.registry.add(handler, ("*",))
            yield Receiver({}, lambda: [Sent(one.event_id, one.body) for one in self.calls])

    def make_sink(self, receiver):
        return HandlerSink(self.registry)


class TestAsyncHandler(HandlerContract):
    @contextmanager
    def handling(self, behaviour):
        async def handle(delivery):
            self.calls.append(delivery)
            if behaviour is Behaviour.HANGS:
                await asyncio.Event().wait()
            return Refused("shop_closed") if behaviour is Behaviour.REFUSES else None

        yield Handler(handle)


class TestBlockingHandler(HandlerContract):
    @contextmanager
    def handling(self, behaviour):
        end = threading.Event()

        def handle(delivery):
            self.calls.append(delivery)
            if behaviour is Behaviour.HANGS:
                end.wait(30)
            return Refused("shop_closed") if behaviour is Behaviour.REFUSES else None

        yield Handler(handle)
        end.set()


class TestBatchHandler(HandlerContract):
    @contextmanager
    def handling(self, behaviour):
        async def handle(deliveries):
            self.calls += deliveries
            if behaviour is Behaviour.HANGS:
                await asyncio.Event().wait()
            return dict.fromkeys(deliveries, Refused("shop_closed")) if behaviour is Behaviour.REFUSES else None

        yield Handler(handle, batch=10)
