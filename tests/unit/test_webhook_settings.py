from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from outbox.errors import InvalidSettings, ReferenceMissing
from outbox.masking import shown_settings
from outbox.secrets import redact, resolve_secret, shown_secret
from relays.sinks.webhook import WebhookSink
from relays.sinks.webhook.settings import parse_settings

URL = "https://8.8.8.8/hooks"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
NOW = datetime(2026, 12, 1, tzinfo=UTC)


def test_url_alone_is_enough():
    settings = parse_settings({"url": URL})
    assert (settings.body, settings.engine, settings.connect_seconds) == ("standard", "aiohttp", 5.0)
    assert settings.secrets == ()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"uri": URL}, "uri"),
        ({"url": "http://8.8.8.8/"}, "allow_http"),
        ({"url": URL, "allow_http": "yes"}, "allow_http"),
        ({"url": URL, "secret": "hunter2-hunter2"}, "secret"),
        ({"url": URL, "secret": []}, "secret"),
        ({"url": URL, "secret": [SECRET, 7]}, r"secret\[1\]"),
        ({"url": URL, "secret": {"a": 1}}, "secret"),
        ({"url": URL, "previous_secrets": SECRET}, "previous_secrets"),
        ({"url": URL, "previous_secrets": [SECRET]}, r"previous_secrets\[0\]"),
        ({"url": URL, "previous_secrets": [{"secret": SECRET, "until": "soon"}]}, r"previous_secrets\[0\].until"),
        ({"url": URL, "body": "xml"}, "body"),
        ({"url": URL, "body": ["raw"]}, "body"),
        ({"url": URL, "source": "a b"}, "source"),
        ({"url": URL, "source": "\n"}, "source"),
        ({"url": URL, "headers": "x: y"}, "headers"),
        ({"url": URL, "headers": {"x": 1}}, "headers"),
        ({"url": URL, "forward_headers": {"x": 1}}, "forward_headers"),
        ({"url": URL, "allow_networks": "everything"}, "allow_networks"),
        ({"url": URL, "allow_networks": {"a": 1}}, "allow_networks"),
        ({"url": URL, "dead_on": [200]}, "dead_on"),
        ({"url": URL, "dead_on": "2xx"}, "dead_on"),
        ({"url": URL, "dead_on": [600]}, "dead_on"),
        ({"url": URL, "client_key": "key.pem"}, "client_key"),
        ({"url": URL, "ca_file": ""}, "ca_file"),
        ({"url": URL, "ca_file": "a\0b"}, "ca_file"),
        ({"url": URL, "engine": "curl"}, "engine"),
        ({"url": URL, "http2": True}, "http2"),
        ({"url": URL, "proxy": "http://proxy:3128"}, "proxy"),
        ({"url": URL, "engine": "httpx", "proxy": "socks5://proxy"}, "proxy"),
        ({"url": URL, "connect_timeout": "0s"}, "connect_timeout"),
        ({"url": URL, "connect_timeout": "fast"}, "connect_timeout"),
    ],
)
def test_setting_that_makes_no_sense_is_refused_by_name(settings, named):
    with pytest.raises(InvalidSettings, match=named) as refused:
        WebhookSink.check(settings)
    assert "hunter2" not in str(refused.value)
    assert "hooks" not in str(refused.value)


def test_what_the_command_line_types_means_the_same_as_what_a_file_holds():
    typed = parse_settings(
        {"url": URL, "allow_http": "true", "allow_networks": "10.0.0.0/8, fd00::/8", "dead_on": "404"}
    )
    filed = parse_settings(
        {"url": URL, "allow_http": True, "allow_networks": ["10.0.0.0/8", "fd00::/8"], "dead_on": [404]}
    )
    assert typed == filed


def test_references_are_not_looked_up_when_saving():
    WebhookSink.check(
        {
            "url": URL,
            "secret": ["env:NOT_SET_HERE", "file:/not/here"],
            "headers": {"authorization": "env:NOT_SET_HERE"},
            "ca_file": "/not/here.pem",
        }
    )


def test_default_policy_is_the_standard_webhooks_schedule():
    policy = WebhookSink.default_policy
    assert policy.schedule == (5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400)
    assert (policy.max_attempts, policy.timeout, policy.max_in_flight) == (10, 20, 4)


def test_rotation_keeps_the_old_secret_for_the_grace_and_forgets_it_after():
    settings = {"url": URL, "secret": SECRET}
    once = WebhookSink.rotate_secret(settings, "env:NEW", 86400, NOW)
    assert once == {
        "url": URL,
        "secret": "env:NEW",
        "previous_secrets": [{"secret": SECRET, "until": "2026-12-02T00:00:00+00:00"}],
    }
    twice = WebhookSink.rotate_secret(once, OTHER, 3600, NOW + timedelta(hours=1))
    assert [one["secret"] for one in twice["previous_secrets"]] == ["env:NEW", SECRET]
    later = WebhookSink.rotate_secret(twice, SECRET, 0, NOW + timedelta(days=3))
    assert later == {"url": URL, "secret": SECRET}
    assert settings == {"url": URL, "secret": SECRET}


def test_rotation_of_a_list_and_of_none():
    listed = WebhookSink.rotate_secret({"url": URL, "secret": [SECRET, OTHER]}, "env:NEW", 60, NOW)
    assert [one["secret"] for one in listed["previous_secrets"]] == [SECRET, OTHER]
    assert WebhookSink.rotate_secret({"url": URL}, "env:NEW", 60, NOW) == {"url": URL, "secret": "env:NEW"}


@pytest.mark.parametrize("new", [SECRET, "plain", "", "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="])
def test_rotation_to_the_same_or_to_no_secret_is_refused(new):
    with pytest.raises(InvalidSettings, match="secret"):
        WebhookSink.rotate_secret({"url": URL, "secret": SECRET}, new, 60, NOW)


def shown(**settings):
    return shown_settings("webhook", settings)


def test_w12_settings_are_shown_without_secrets():
    seen = shown(
        url="https://shop.example/services/SECRET2?token=SECRET3",
        secret=["whsec_SECRET5", "env:SHOP_SECRET"],
        previous_secrets=[{"secret": "whsec_SECRET5", "until": "2026-12-02T00:00:00+00:00"}],
        headers={"authorization": "Bearer SECRET4", "x-token": "file:/run/token"},
        proxy="http://proxy:3128/SECRET2",
        body="raw",
    )
    assert "SECRET" not in repr(seen).replace("SHOP_SECRET", "")
    assert "shop.example" in seen["url"]
    assert seen["secret"][1] == "env:SHOP_SECRET"
    assert seen["headers"]["x-token"] == "file:/run/token"
    assert seen["body"] == "raw"


@pytest.mark.parametrize(
    "url", ["https://h?token=SECRET3", "https://u:SECRET1@h?x#SECRET2", "https://h#SECRET2", "x SECRET1"]
)
def test_w12_urls_that_no_longer_parse_are_shown_without_secrets(url):
    assert "SECRET" not in repr(shown(url=url, proxy=url))


@pytest.mark.parametrize("value", ["SECRET1", ["SECRET1"], {"a": "SECRET1"}, [{"secret": "SECRET1"}], None, 7])
@pytest.mark.parametrize("name", ["secret", "previous_secrets", "headers"])
def test_w12_settings_of_the_wrong_form_are_shown_without_secrets(name, value):
    assert "SECRET" not in repr(shown(**{name: value}))


def test_secret_references(monkeypatch, tmp_path):
    monkeypatch.setenv("SHOP_SECRET", "one")
    file = tmp_path / "secret"
    file.write_bytes(b"two\r\n")
    assert resolve_secret("env:SHOP_SECRET", "secret") == "one"
    assert resolve_secret(f"file:{file}", "secret") == "two"
    assert resolve_secret("three", "secret") == "three"
    file.write_bytes(b"line\n\n")
    assert resolve_secret(f"file:{file}", "secret") == "line\n"


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe", b"x" * 70_000])
def test_unreadable_secret_file_is_named_and_its_content_is_not(content, tmp_path):
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ReferenceMissing, match=r"secret: .*/secret") as missing:
        resolve_secret(f"file:{file}", "secret")
    assert "xxxx" not in str(missing.value)
    assert missing.value.__cause__ is None


def test_redaction_replaces_secrets_and_leaves_short_words():
    assert redact("abcdef abcd ab", ["abcdef", "abcd", "ab"]) == "[redacted] [redacted] ab"


def test_only_references_are_shown():
    assert shown_secret("env:A") == "env:A"
    assert shown_secret("file:/a") == "file:/a"
    assert shown_secret("whsec_x") == "[redacted]"
