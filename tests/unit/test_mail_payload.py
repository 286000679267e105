"""The payload of a mail: what is accepted, and what is refused with the path of the fault (E05, E06)."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.errors import InvalidEvent
from outbox.mail import check_mail, parse_mail
from outbox.mailboxes import Mailbox, parse_mailbox

GOOD = {"to": "ada@example.com", "subject": "s", "text": "t"}
BREAKS = ["\r\n", "\n", "\r", "\u2028", "\x0b", "\x00", "\x85", "\x1b", "\x7f"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("ada@example.com", Mailbox("ada", "example.com")),
        ("  ada@EXAMPLE.com ", Mailbox("ada", "example.com")),
        ("Ada <ada@example.com>", Mailbox("ada", "example.com", "Ada")),
        ('"Lovelace, Ada" <ada@example.com>', Mailbox("ada", "example.com", "Lovelace, Ada")),
        ('"a \\"q\\" \\\\" <ada@example.com>', Mailbox("ada", "example.com", 'a "q" \\')),
        ("<ada@example.com>", Mailbox("ada", "example.com")),
        ("Pepé <pepe@example.com>", Mailbox("pepe", "example.com", "Pepé")),
        ("jörg@example.com", Mailbox("jörg", "example.com")),
        ("user@exämple.com", Mailbox("user", "xn--exmple-cua.com")),
        ("user@straße.example", Mailbox("user", "xn--strae-oqa.example")),
        ("a+b.c_d'e@sub.example.com", Mailbox("a+b.c_d'e", "sub.example.com")),
        ("root@localhost", Mailbox("root", "localhost")),
        ({"address": "ada@example.com", "name": "Ada"}, Mailbox("ada", "example.com", "Ada")),
        ({"address": "ada@example.com"}, Mailbox("ada", "example.com")),
    ],
)
def test_e06_mailboxes_are_read(value, expected):
    assert parse_mailbox(value, "$.to") == expected


@pytest.mark.parametrize(
    "value",
    [
        "",
        "ada",
        "@example.com",
        "ada@",
        "a b@example.com",
        "ada@exa mple.com",
        "ada@example..com",
        "ada@-example.com",
        "ada@example.com, bob@example.com",
        "ada@example.com, Bob <bob@example.com>",
        "a@b>\r\nRCPT TO:<evil@x",
        "<a@b.example> SIZE=1",
        "a@b.example>x",
        "a<b@example.com",
        '"a b"@example.com',
        f"{'x' * 65}@example.com",
        f"{'é' * 33}@example.com",
        f"a@{'x' * 64}.example",
        f"a@{'x.' * 130}example",
        f"{'n' * 256} <ada@example.com>",
        "ada@[127.0.0.1]",
        None,
        7,
        ["ada@example.com"],
        {"address": "ada@example.com", "nmae": "Ada"},
        {"address": None},
        {"name": "Ada"},
    ],
)
def test_what_is_no_mailbox_is_refused_by_its_path_alone(value):
    with pytest.raises(InvalidEvent, match=r"^\$\.to\[3\]") as caught:
        parse_mailbox(value, "$.to[3]")
    assert "example" not in str(caught.value).replace("ada@example.com", "")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("line_break", BREAKS)
@pytest.mark.parametrize(
    ("path", "payload"),
    [
        ("$.subject", lambda b: {"subject": f"a{b}Bcc: evil@example.com"}),
        ("$.to", lambda b: {"to": f"a{b}b@example.com"}),
        ("$.to", lambda b: {"to": f"A{b}B <a@example.com>"}),
        ("$.to[0]", lambda b: {"to": [{"address": "a@example.com", "name": f"x{b}y"}]}),
        ("$.cc[0]", lambda b: {"cc": [f"a@exam{b}ple.com"]}),
        ("$.from", lambda b: {"from": f"x{b} <a@example.com>"}),
        ("$.reply_to", lambda b: {"reply_to": f"a@example.com{b}x"}),
        ("$.headers.X-Order", lambda b: {"headers": {"X-Order": f"1{b}X-Evil: 1"}}),
        ("$.headers", lambda b: {"headers": {f"X-Order{b}X-Evil": "1"}}),
        ("$.attachments[0].filename", lambda b: {"attachments": [{"filename": f"a{b}.pdf", "content": ""}]}),
        ("$.attachments[0].content_type", lambda b: {"attachments": [{"content_type": f"a/b{b}X: y"}]}),
        ("$.attachments[0].content_id", lambda b: {"attachments": [{"content_id": f"a{b}b"}]}),
        ("$.list_unsubscribe", lambda b: {"list_unsubscribe": f"https://example.com/{b}x"}),
    ],
)
def test_e05_a_line_break_in_any_header_is_refused_by_its_path(path, payload, line_break):
    with pytest.raises(InvalidEvent) as caught:
        check_mail({**GOOD, **payload(line_break)})
    assert str(caught.value).startswith(path)
    assert "evil" not in str(caught.value).lower()
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("path", "payload"),
    [
        ("$:", None),
        ("$:", [GOOD]),
        ("$.to: 0 recipients", {"subject": "s", "text": "t"}),
        ("$.to: 0 recipients", {**GOOD, "to": []}),
        ("$.to: 1001 recipients", {**GOOD, "to": [f"a{n}@example.com" for n in range(1001)]}),
        ("$.text: there is neither", {"to": "ada@example.com", "subject": "s"}),
        ("$.subject: is not a string", {**GOOD, "subject": 7}),
        ("$.subject: is longer", {**GOOD, "subject": "x" * 2001}),
        ("$.text: is not a string", {**GOOD, "text": ["t"]}),
        ("$.text: has half of a surrogate", {**GOOD, "text": "\ud800"}),
        ("$.bbc: is no field", {**GOOD, "bbc": "eve@example.com"}),
        ("$.headers: give an object", {**GOOD, "headers": []}),
        ("$.headers: give an object", {**GOOD, "headers": {f"X-{n}": "" for n in range(51)}}),
        ("$.headers.X-A: is not a string", {**GOOD, "headers": {"X-A": 1}}),
        ("$.headers.X-A: has a word longer", {**GOOD, "headers": {"X-A": "x" * 901}}),
        ("$.headers.X-A: is longer", {**GOOD, "headers": {"X-A": "x " * 2001}}),
        ("$.list_unsubscribe: give an https", {**GOOD, "list_unsubscribe": "http://example.com"}),
        ("$.attachments: give a list", {**GOOD, "attachments": {}}),
        ("$.attachments[0]: give an object", {**GOOD, "attachments": ["a"]}),
        ("$.attachments[0].filename", {**GOOD, "attachments": [{"content": ""}]}),
        ("$.attachments[0].filename", {**GOOD, "attachments": [{"filename": "../a", "content": ""}]}),
        ("$.attachments[0].content: is not", {**GOOD, "attachments": [{"filename": "a", "content": "%%%"}]}),
        ("$.attachments[0].content: is not", {**GOOD, "attachments": [{"filename": "a", "content": "YQ"}]}),
        ("$.attachments[0].content: is not", {**GOOD, "attachments": [{"filename": "a", "content": "é"}]}),
        ("$.attachments[0].content: is not", {**GOOD, "attachments": [{"filename": "a"}]}),
        ("$.attachments[0].content_type", {**GOOD, "attachments": [{"content_type": "message/rfc822"}]}),
        ("$.attachments[0].content_type", {**GOOD, "attachments": [{"content_type": "multipart/mixed"}]}),
    ],
)
def test_what_can_never_be_sent_is_refused_by_its_path(path, payload):
    with pytest.raises(InvalidEvent) as caught:
        parse_mail(payload)
    assert str(caught.value).startswith(path)


@pytest.mark.parametrize(
    "name",
    ["From", "to", "BCC", "Subject", "Date", "Message-ID", "MIME-Version", "Content-Type", "Content-Disposition",
     "Resent-To", "Return-Path", "Received", "DKIM-Signature", "ARC-Seal", "List-Unsubscribe-Post", "Sender"],
)  # fmt: skip
def test_headers_the_mail_makes_itself_are_refused(name):
    with pytest.raises(InvalidEvent, match=name):
        check_mail({**GOOD, "headers": {name: "x"}})


def test_recipients_are_counted_once_each():
    mail = parse_mail(
        {
            **GOOD,
            "to": ["Ada <ada@example.com>", "ada@EXAMPLE.com"],
            "cc": "bob@example.com",
            "bcc": ["ada@example.com"],
        }
    )
    assert mail.recipients == ("ada@example.com", "bob@example.com")


def test_attachments_take_base64_with_line_breaks():
    content = base64.encodebytes(b"x" * 200).decode()
    [attachment] = parse_mail({**GOOD, "attachments": [{"filename": "a.bin", "content": content}]}).attachments
    assert attachment.content == b"x" * 200


def test_an_https_unsubscribe_is_one_click_and_mailto_is_not():
    mail = parse_mail({**GOOD, "list_unsubscribe": "https://example.com/u?id=17"})
    assert mail.headers == (
        ("List-Unsubscribe", "<https://example.com/u?id=17>"),
        ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
    )
    mail = parse_mail({**GOOD, "list_unsubscribe": "mailto:leave@example.com"})
    assert mail.headers == (("List-Unsubscribe", "<mailto:leave@example.com>"),)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["to", "cc", "subject", "text", "headers", "attachments", "address", "name", "filename"]
                )
                | st.text(),
                inner,
                max_size=4,
            )
        ),
    )
)
def test_whatever_json_says_it_is_a_mail_or_refused(payload):
    try:
        parse_mail(payload)
    except InvalidEvent as refused:
        assert str(refused).startswith("$")  # noqa: PT017 - both ends are right, nothing else is
