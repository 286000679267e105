"""What reaches the server: the same bytes on every attempt, nothing injected, all that can be sent (E05, E06, E07)."""

from __future__ import annotations

import base64
import json
from email import message_from_bytes
from email.policy import default

import pytest

from outbox.model import Certainty
from relays.results import Delivered
from tests.mail_deliveries import delivery, destination, send, send_all
from tests.mail_server import MailServer, drop, every, reply

PAYLOAD = {
    "to": "Jörg <joerg@example.com>",
    "subject": "Ваш заказ " * 20,
    "text": ".\n..\n.dots\r\n\nÄ",
    "html": "<p>" + "x" * 200_000,
    "attachments": [{"filename": "請求書.pdf", "content": base64.b64encode(bytes(range(256)) * 40).decode()}],
}


def test_every_attempt_carries_the_same_bytes_through_every_fault():
    faults = [reply("451 4.3.0 later", stores=True), drop(), None, None]
    with MailServer(FINAL=faults) as server:
        for attempt in range(1, 5):
            send(server, PAYLOAD, values={"attempt": attempt})
        contents = {mail.content for mail in server.mails}
        assert len(server.mails) == 4
        assert len(contents) == 1
        [content] = contents
        message = message_from_bytes(content, policy=default)
        assert message["message-id"] == "<0192f0c1-7a2b-7c3d-8e4f-5a6b7c8d9e0f.7@example.com>"
        assert message["date"].datetime.isoformat() == "2026-12-01T09:30:00+00:00"


def test_e07_what_arrives_is_what_was_recorded():
    with MailServer() as server:
        assert isinstance(send(server, PAYLOAD), Delivered)
        message = message_from_bytes(server.mails[0].content, policy=default)
        assert message["subject"] == PAYLOAD["subject"]
        text = message.get_body(("plain",)).get_content().replace("\r\n", "\n")
        assert text == ".\n..\n.dots\n\nÄ\n"
        assert message.get_body(("html",)).get_content().strip() == PAYLOAD["html"]
        [attachment] = message.iter_attachments()
        assert attachment.get_content() == bytes(range(256)) * 40
        assert max(len(line) for line in server.mails[0].content.split(b"\r\n")) <= 998


@pytest.mark.parametrize(
    "payload",
    [
        {"to": "a@b.example>\r\nRCPT TO:<evil@example.com"},
        {"to": "a@b.example> SIZE=1 RCPT TO:<evil@example.com"},
        {"subject": "a\r\nBcc: evil@example.com"},
        {"subject": "a\n.\nMAIL FROM:<evil@example.com>"},
        {"headers": {"X-A": "b\r\nX-Evil: 1"}},
        {"headers": {"X-A\r\nX-Evil": "1"}},
        {"from": "a@b.example\nX-Evil: 1"},
        {"attachments": [{"filename": 'a"\r\nX-Evil: 1', "content": ""}]},
    ],
)
def test_e05_an_injection_is_dead_at_once_and_nothing_is_sent(payload):
    with MailServer() as server:
        to = destination(server)
        refused, delivered = send_all(delivery(to, payload), delivery(to))
        assert (refused.reason, refused.permanent, refused.certainty) == ("invalid_mail", True, Certainty.NOT_SENT)
        assert refused.detail.startswith("$.")
        assert "evil" not in refused.detail.lower()
        assert isinstance(delivered, Delivered)
        wire = b"".join(bytes(wire.received) for wire in server.wires)
        assert b"evil" not in wire.lower()
        assert server.count("RCPT") == 1


def test_a_smuggled_end_of_data_in_the_text_stays_text():
    text = "hello\r\n.\r\nMAIL FROM:<evil@example.com>\r\nRCPT TO:<evil@example.com>\r\nDATA\r\n\n.\nx\r.\ry"
    with MailServer() as server:
        assert isinstance(send(server, {"text": text}), Delivered)
        assert len(server.mails) == 1
        assert b"MAIL FROM:<evil" in server.mails[0].content


@pytest.mark.parametrize("payload", [b"[]", b"null", b'"x"', b'{"to":7}', b"{}"])
def test_a_payload_that_is_no_mail_is_dead_at_once(payload):
    with MailServer() as server:
        to = destination(server)
        [result] = send_all(delivery(to, body=payload))
        assert (result.reason, result.permanent) == ("invalid_mail", True)
        assert server.sessions == 0


def test_e06_a_non_ascii_mailbox_needs_a_server_that_takes_it():
    payload = {"to": ["jörg@example.com", "ada@example.com"]}
    with MailServer(smtputf8=True) as server:
        assert isinstance(send(server, payload), Delivered)
        [mail] = server.mails
        assert mail.recipients == ["jörg@example.com", "ada@example.com"]
        assert "SMTPUTF8" in mail.options
        assert "To: jörg@example.com, ada@example.com".encode() in mail.content
    with MailServer() as server:
        result = send(server, payload)
        assert (result.reason, result.permanent) == ("smtputf8_not_offered", True)
        assert "does not support non-ASCII mailbox names" in result.detail
        assert server.count("MAIL") == 0


def test_e06_names_and_domains_go_anywhere():
    with MailServer() as server:
        result = send(server, {"to": "Pepé <user@exämple.com>", "from": "Bücher <shop@bücher.example>"})
        assert isinstance(result, Delivered)
        [mail] = server.mails
        assert mail.recipients == ["user@xn--exmple-cua.com"]
        assert mail.return_path == "shop@xn--bcher-kva.example"
        assert mail.content.isascii()
        assert not {"SMTPUTF8", "BODY=8BITMIME"} & set(mail.options)


def test_a_message_larger_than_the_server_takes_is_dead_before_it_is_sent():
    with MailServer(size=20_000) as server:
        to = destination(server)
        large, small = send_all(delivery(to, {"text": "x" * 30_000}), delivery(to))
        assert (large.reason, large.permanent, large.certainty) == ("message_too_large", True, Certainty.NOT_SENT)
        assert isinstance(small, Delivered)
        assert server.count("MAIL") == 1


def test_a_message_larger_than_the_destination_allows_is_dead():
    content = base64.b64encode(b"x" * 100_000).decode()
    with MailServer() as server:
        result = send(server, {"attachments": [{"filename": "a", "content": content}]}, max_message_bytes=100_000)
        assert (result.reason, result.permanent) == ("invalid_mail", True)
        assert "max_message_bytes" in result.detail
        assert server.sessions == 0


def test_a_large_attachment_arrives_whole():
    content = bytes(range(256)) * 8000
    with MailServer() as server:
        payload = {"attachments": [{"filename": "a.bin", "content": base64.b64encode(content).decode()}]}
        assert isinstance(send(server, payload, seconds=30.0), Delivered)
        [attachment] = message_from_bytes(server.mails[0].content, policy=default).iter_attachments()
        assert attachment.get_content() == content


def test_sender_and_return_path_come_from_payload_or_settings():
    with MailServer() as server:
        send(server, {"from": "Own <own@example.org>"})
        send(server, return_path="bounces@example.net", message_id_domain="ids.example.net")
        first, second = server.mails
        assert first.return_path == "own@example.org"
        assert b"From: Own <own@example.org>\r\n" in first.content
        assert b"@example.org>\r\n" in first.content
        assert second.return_path == "bounces@example.net"
        assert b"Message-ID: <0192f0c1-7a2b-7c3d-8e4f-5a6b7c8d9e0f.7@ids.example.net>\r\n" in second.content


def test_no_sender_anywhere_is_dead_with_the_remedy():
    with MailServer() as server:
        to = destination(server)
        del to.settings["from"]
        [result] = send_all(delivery(to))
        assert (result.reason, result.permanent) == ("invalid_mail", True)
        assert "--set from=" in result.detail


def test_replies_are_told_without_the_mails_content():
    with MailServer(RCPT=every(reply("550 5.1.1 unknown"))) as server:
        result = send(server, {"subject": "SECRET8", "text": "SECRET8"})
        assert "SECRET8" not in json.dumps(result.detail)
