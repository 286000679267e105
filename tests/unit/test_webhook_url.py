from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.errors import InvalidSettings
from relays.http.url import parse_url


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("https://shop.example", "https://shop.example/"),
        ("HTTPS://Shop.Example/Hooks?a=b", "https://shop.example/Hooks?a=b"),
        ("https://shop.example:443/", "https://shop.example/"),
        ("http://shop.example:8080", "http://shop.example:8080/"),
        ("https://shop.example?x=1", "https://shop.example/?x=1"),
        ("https://shop.example./", "https://shop.example./"),
        ("https://[2606:4700:0:0::1111]:8443/x", "https://[2606:4700::1111]:8443/x"),
        ("https://1.2.3.4/x", "https://1.2.3.4/x"),
        ("https://exämple.com/", "https://xn--exmple-cua.com/"),
        ("https://under_score.example/%C3%A9", "https://under_score.example/%C3%A9"),
    ],
)
def test_url_has_one_spelling(text, same):
    assert str(parse_url(text, "url")) == same


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "url"),
        ("", "url"),
        (7, "url"),
        ("shop.example/hooks", "https://"),
        ("//127.0.0.1/", "https://"),
        ("ftp://127.0.0.1/", "https://"),
        ("gopher://127.0.0.1/", "https://"),
        ("file:///etc/passwd", "https://"),
        ("unix:///run/docker.sock", "https://"),
        ("http:///127.0.0.1", "absolute"),
        ("https://", "absolute"),
        ("https://:8080/", "absolute"),
        ("https://user:SECRET1@shop.example/", "user name"),
        ("https://example.com@127.0.0.1/", "user name"),
        ("https://example.com:80@127.0.0.1/", "user name"),
        ("https://127.0.0.1#@example.com/", "fragment"),
        ("https://shop.example/#x", "fragment"),
        (r"https://example.com\@127.0.0.1/", "user name"),
        (r"https://example.com\x", r"\\"),
        ("https://shop.example/a b", "spaces"),
        ("https://shop.example/\r\nHost: x", "control"),
        ("https://shop.example/\t", "control"),
        ("https://shop.example/\x00", "control"),
        ("https://shop.example/é", "%XX"),
        ("https://example.com%0d%0aHost:x/", "absolute|host"),
        ("https://%31%32%37.0.0.1/", "absolute"),
        ("https://[fe80::1%eth0]/", "absolute"),
        ("https://[fe80::1%25eth0]/", "absolute"),
        ("https://0/", "host"),
        ("https://2130706433/", "host"),
        ("https://0x7f000001/", "host"),
        ("https://0x7f.0.0.1/", "host"),
        ("https://017700000001/", "host"),
        ("https://0177.0.0.1/", "host"),
        ("https://127.1/", "host"),
        ("https://127.0.1/", "host"),
        ("https://0x7f.1/", "host"),
        ("https://1.2.3.4./", "host"),
        ("https://a..b/", "host"),
        ("https://-a.example/", "host"),
        ("https://xn--/", "host"),
        ("https://" + "a" * 64 + ".example/", "host"),
        ("https://" + "a." * 130 + "example/", "host"),
        ("https://shop.example:0/", "port"),
        ("https://shop.example:22/", "port"),
        ("https://shop.example:5432/", "port"),
        ("https://shop.example:6379/", "port"),
        ("https://shop.example:65536/", "port"),
        ("https://shop.example:/", "absolute"),
        ("https://shop.example/" + "a" * 2100, "longer"),
    ],
)
def test_url_that_could_be_read_differently_is_refused_and_not_repeated(text, why):
    with pytest.raises(InvalidSettings, match=why) as refused:
        parse_url(text, "url")
    assert str(refused.value).startswith("url: ")
    assert "SECRET" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("https://127\N{IDEOGRAPHIC FULL STOP}0\N{IDEOGRAPHIC FULL STOP}0\N{IDEOGRAPHIC FULL STOP}1/", "127.0.0.1"),
        ("https://①②⑦.⓪.⓪.①/", "127.0.0.1"),
    ],
)
def test_other_scripts_digits_are_the_address_they_stand_for(text, host):
    url = parse_url(text, "url")
    assert url.host == host
    assert url.is_literal


def test_only_scheme_host_and_port_are_shown():
    url = parse_url("https://shop.example:8443/services/SECRET2?token=SECRET3", "url")
    assert url.shown == "https://shop.example:8443/…"
    assert "SECRET" not in repr(url)


@given(st.text())
def test_any_text_is_a_url_or_refused(text):
    try:
        url = parse_url("https://" + text, "url")
    except InvalidSettings:
        return
    assert parse_url(str(url), "url") == url
