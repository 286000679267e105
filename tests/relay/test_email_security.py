"""Encryption and login: never less than the settings say, and faults of these are the server's, not the mail's."""

from __future__ import annotations

import pytest

from outbox.errors import InvalidSettings
from relays.results import Delivered
from relays.sinks.email import EmailSink
from tests.certificates import Authority
from tests.mail_deliveries import delivery, destination, send, send_all
from tests.mail_server import MailServer, every, reply

USERS = {"shop": "SECRET7-password"}
LOGIN = {"username": "shop", "password": "SECRET7-password"}


@pytest.fixture
def authority(tmp_path) -> Authority:
    return Authority(tmp_path)


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_mail_goes_encrypted_and_logged_in(authority, security):
    tls = authority.server_context("127.0.0.1")
    with MailServer(tls=tls, implicit_tls=security == "tls", users=USERS) as server:
        result = send(server, security=security, ca_file=authority.file, **LOGIN)
        assert isinstance(result, Delivered)
        assert server.logins == ["PLAIN"]
        assert len(server.mails) == 1


def test_starttls_is_the_default_and_a_server_without_it_gets_nothing():
    with MailServer() as server:
        to = destination(server)
        del to.settings["security"]
        [result] = send_all(delivery(to))
        assert (result.reason, result.charged, result.hold.state) == ("starttls_not_offered", False, "tripped")
        assert server.count("MAIL") == 0


def test_a_server_that_refuses_starttls_gets_nothing(authority):
    tls = authority.server_context("127.0.0.1")
    with MailServer(tls=tls, STARTTLS=every(reply("454 4.7.0 TLS not available"))) as server:
        result = send(server, security="starttls", ca_file=authority.file)
        assert (result.reason, result.charged, result.hold.state) == ("smtp_454", False, "held")
        assert server.count("MAIL") == 0


@pytest.mark.parametrize("security", ["starttls", "tls"])
@pytest.mark.parametrize("fault", ["unknown authority", "other name", "expired"])
def test_a_bad_certificate_trips_and_nothing_is_sent(authority, tmp_path, security, fault):
    name = "other.example" if fault == "other name" else "127.0.0.1"
    tls = authority.server_context(name, days=-1 if fault == "expired" else 1)
    (tmp_path / "other").mkdir()
    trusted = Authority(tmp_path / "other") if fault == "unknown authority" else authority
    with MailServer(tls=tls, implicit_tls=security == "tls") as server:
        result = send(server, security=security, ca_file=trusted.file)
        assert (result.reason, result.charged, result.hold.state) == ("tls_failed", False, "tripped")
        assert "certificate" in result.detail.lower()
        assert server.mails == []


def test_what_is_injected_in_front_of_tls_is_not_believed(authority):
    tls = authority.server_context("127.0.0.1")
    injected = "\r\n250-injected\r\n250 AUTH LOGIN"
    with MailServer(tls=tls, users=USERS, injected=injected) as server:
        result = send(server, security="starttls", ca_file=authority.file, **LOGIN)
        assert isinstance(result, Delivered)
        assert server.logins == ["PLAIN"]


@pytest.mark.parametrize(
    ("answer", "hold"),
    [("535 5.7.8 bad credentials", "tripped"), ("454 4.7.0 try later", "held"), ("534 5.7.9 too weak", "tripped")],
)
def test_e01_w12_a_refused_login_holds_the_destination_and_shows_no_password(authority, answer, hold):
    tls = authority.server_context("127.0.0.1")
    said = f"{answer} for SECRET7-password AHNob3AAU0VDUkVUNy1wYXNzd29yZA=="
    with MailServer(tls=tls, users=USERS, AUTH=every(reply(said))) as server:
        result = send(server, security="starttls", ca_file=authority.file, **LOGIN)
        assert (result.charged, result.permanent, result.hold.state) == (False, False, hold)
        assert server.count("MAIL") == 0
    shown = f"{result!r}"
    assert "SECRET7" not in shown
    assert "AHNob3" not in shown
    assert "AUTH" in result.detail


def test_a_wrong_password_is_tried_once_by_one_method(authority):
    tls = authority.server_context("127.0.0.1")
    with MailServer(tls=tls, users=USERS) as server:
        result = send(server, security="starttls", ca_file=authority.file, username="shop", password="wrong-one")
        assert result.hold.state == "tripped"
        assert server.logins == ["PLAIN"]


def test_a_server_that_offers_no_login_trips():
    with MailServer() as server:
        result = send(server, **LOGIN)
        assert (result.reason, result.charged, result.hold.state) == ("auth_not_offered", False, "tripped")


def test_a_password_comes_from_a_file_or_the_environment(authority, tmp_path, monkeypatch):
    (tmp_path / "password").write_text("SECRET7-password\n")
    monkeypatch.setenv("SMTP_PASSWORD", "SECRET7-password")
    tls = authority.server_context("127.0.0.1")
    with MailServer(tls=tls, users=USERS) as server:
        for reference in (f"file:{tmp_path / 'password'}", "env:SMTP_PASSWORD"):
            result = send(server, security="starttls", ca_file=authority.file, username="shop", password=reference)
            assert isinstance(result, Delivered)


def test_a_missing_password_holds_until_it_is_there():
    with MailServer() as server:
        result = send(server, username="shop", password="env:NOT_SET_ANYWHERE")
    assert (result.reason, result.charged, result.hold.state) == ("setting_missing", False, "held")


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, "host"),
        ({"host": "mail.example", "port": 0}, "port"),
        ({"host": "mail.example", "port": "x"}, "port"),
        ({"host": "mail.example\r\nRSET"}, "host"),
        ({"host": "mail.example", "security": "ssl"}, "security"),
        ({"host": "mail.example", "username": "shop"}, "password"),
        ({"host": "mail.example", "password": "SECRET7"}, "username"),
        ({"host": "mail.example", "from": "nobody"}, "from"),
        ({"host": "mail.example", "from": "a@b.example\r\nBcc: evil@example.com"}, "from"),
        ({"host": "mail.example", "connections": 0}, "connections"),
        ({"host": "mail.example", "on_ambiguous": "maybe"}, "on_ambiguous"),
        ({"host": "mail.example", "ehlo": "a b"}, "ehlo"),
        ({"host": "mail.example", "message_id_domain": "a>b"}, "message_id_domain"),
        ({"host": "mail.example", "final_dot_timeout": "0s"}, "final_dot_timeout"),
        ({"host": "mail.example", "max_message_bytes": 10}, "max_message_bytes"),
        ({"host": "mail.example", "hots": "mail.example"}, "hots"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(settings, names):
    with pytest.raises(InvalidSettings, match=names) as caught:
        EmailSink.check(settings)
    assert "SECRET7" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_settings_as_the_command_line_types_them_are_good():
    EmailSink.check({
        "host": "mail.example", "port": "2525", "security": "plain", "connections": "8", "on_ambiguous": "hold",
        "command_timeout": "30s", "final_dot_timeout": "10m", "ehlo": "[192.0.2.1]", "from": "Shop <s@example.com>",
        "max_message_bytes": "1048576", "message_id_domain": "example.com", "return_path": "bounces@example.com",
    })  # fmt: skip
