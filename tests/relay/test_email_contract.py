"""The e-mail sink keeps the contract of all sinks."""

from __future__ import annotations

import json
from contextlib import contextmanager
from email import message_from_bytes

from relays.sinks.email import EmailSink
from relays.sinks.testing import Behaviour, Receiver, Sent, SinkContract
from tests.mail_server import MailServer, every, hang, reply

FAULTS = {
    Behaviour.ACCEPTS: {},
    Behaviour.REFUSES: {"RCPT": every(reply("550 5.1.1 unknown"))},
    Behaviour.HANGS: {"DATA": every(hang())},
    Behaviour.AWAY: {},
}


class TestEmailContract(SinkContract):
    sink_class = EmailSink
    body = json.dumps({"to": "ada@example.com", "subject": "Ваш заказ", "text": "é", "html": "<p>"}).encode()
    wrong_settings = ({}, {"host": "mail.example", "security": "ssl"}, {"host": "mail.example", "password": "SECRET7"})

    @contextmanager
    def receiving(self, behaviour):
        with MailServer(**FAULTS[behaviour], users={"shop": "SECRET7-password"}) as server:
            settings = {
                "host": "127.0.0.1",
                "port": server.port,
                "security": "plain",
                "from": "shop@example.com",
                "username": "shop",
                "password": "SECRET7-password",
            }
            if behaviour is not Behaviour.AWAY:
                yield Receiver(settings, lambda: [_sent(mail.content) for mail in server.mails])
        if behaviour is Behaviour.AWAY:
            yield Receiver(settings)


def _sent(content: bytes) -> Sent:
    return Sent(message_from_bytes(content)["message-id"], content)
