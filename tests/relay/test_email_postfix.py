"""A real hop: from the sink through postfix to the next server, with its TLS, its replies and its time limits."""

from __future__ import annotations

import time
from email import message_from_bytes
from email.policy import default

import pytest

from relays.results import Delivered
from tests.certificates import Authority
from tests.mail_deliveries import delivery, destination, send_all
from tests.mail_server import MailServer
from tests.postfix import postfix


class Hop:
    """Where to send, and where it arrives."""

    def __init__(self, port: int, arrived: MailServer, authority: Authority):
        self.port = port
        self.arrived = arrived
        self.settings = {"security": "starttls", "ca_file": authority.file}


@pytest.fixture(scope="module")
def hop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    authority = Authority(folder)
    with MailServer(smtputf8=True) as server, postfix(server.port, authority.issue("127.0.0.1")) as port:
        yield Hop(port, server, authority)


def arrived(hop, subject: str):
    """Return the mail with `subject` once it is at the next server."""

    def find():
        return [mail for mail in list(hop.arrived.mails) if message_from_bytes(mail.content)["subject"] == subject]

    [mail] = hop.arrived.wait_until(find, f"the mail {subject!r}")
    return mail


def test_a_mail_goes_encrypted_through_postfix_and_arrives_whole(hop):
    payload = {
        "to": "Jörg <joerg@example.com>",
        "subject": "through postfix",
        "text": ".\n..dots\nGrüße\n" + "x" * 3000,
        "attachments": [{"filename": "請求書.pdf", "content": "JVBERi0xLjQ="}],
    }
    [result] = send_all(delivery(destination(hop, **hop.settings), payload))
    assert isinstance(result, Delivered)
    assert "2.0.0 Ok: queued as" in result.detail
    mail = arrived(hop, "through postfix")
    assert mail.recipients == ["joerg@example.com"]
    assert b"with ESMTPS id" in mail.content  # over TLS
    message = message_from_bytes(mail.content, policy=default)
    assert message["message-id"] == "<0192f0c1-7a2b-7c3d-8e4f-5a6b7c8d9e0f.7@example.com>"
    assert message.get_body(("plain",)).get_content().replace("\r\n", "\n") == payload["text"] + "\n"
    [attachment] = message.iter_attachments()
    assert (attachment.get_filename(), attachment.get_content()) == ("請求書.pdf", b"%PDF-1.4")


def test_e06_a_non_ascii_mailbox_goes_through_postfix(hop):
    [result] = send_all(delivery(destination(hop, **hop.settings), {"to": "jörg@example.com", "subject": "utf8"}))
    assert isinstance(result, Delivered)
    assert arrived(hop, "utf8").recipients == ["jörg@example.com"]


def test_e01_postfixs_refusals_are_understood(hop):
    to = destination(hop, **hop.settings)
    gone, busy, large, fine = send_all(
        delivery(to, {"to": "gone@example.com"}),
        delivery(to, {"to": "busy@example.com"}),
        delivery(to, {"text": "x\n" * 60_000}),
        delivery(to, {"subject": "after refusals"}),
    )
    assert (gone.reason, gone.permanent) == ("smtp_550", True)
    assert "no such mailbox" in gone.detail
    assert (busy.reason, busy.permanent) == ("smtp_450", False)
    assert (large.reason, large.permanent) == ("message_too_large", True)
    assert isinstance(fine, Delivered)
    arrived(hop, "after refusals")


def test_e02_postfixs_idle_time_limit_costs_nothing(hop):
    to = destination(hop, **hop.settings)
    first, second = send_all(
        delivery(to, {"subject": "before idling"}),
        delivery(to, {"subject": "after idling"}),
        between=lambda: time.sleep(2.5),  # postfix closes after 2 s
    )
    assert isinstance(first, Delivered)
    assert isinstance(second, Delivered)
    arrived(hop, "after idling")


def test_postfix_without_a_trusted_certificate_gets_nothing(hop, tmp_path):
    stranger = Authority(tmp_path)
    settings = {"security": "starttls", "ca_file": stranger.file}
    [result] = send_all(delivery(destination(hop, **settings), {"subject": "untrusted"}))
    assert (result.reason, result.charged, result.hold.state) == ("tls_failed", False, "tripped")
