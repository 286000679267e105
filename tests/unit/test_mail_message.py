"""Messages: the same bytes each time, legal on every wire, and read back as what was meant (E06, E07)."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime, timedelta, timezone
from email import message_from_bytes
from email.header import decode_header, make_header
from email.policy import default
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox.mail import parse_mail
from outbox.mailboxes import Mailbox
from relays.sinks.email.message import build_message

SENDER = Mailbox("shop", "example.com", "Shop")
DATE = datetime(2026, 12, 1, 9, 30, 0, 250_000, tzinfo=UTC)
MESSAGE_ID = "<0192f0c1-7a2b-7c3d-8e4f-5a6b7c8d9e0f.7@example.com>"
GOLDEN = Path(__file__).parent / "golden"

INVOICE = "請求書 2026年12月分・お客様控え.pdf"
FULL = {
    "to": ["Jörg Müller <joerg@example.com>", "ada@example.com"],
    "cc": [{"address": "user@exämple.com", "name": "Lovelace, Ada"}],
    "bcc": "secret@example.com",
    "reply_to": "help@example.com",
    "subject": "Ваш заказ принят и скоро будет отправлен, спасибо за покупку в нашем магазине 😀",
    "text": "Grüße\n.\n..dots\nFrom here\n" + "long " * 50 + "\ntrailing \n",
    "html": "<p>" + "x" * 500 + "</p><img src='cid:logo'>",
    "headers": {"X-Order": "17", "References": " ".join(f"<{n}@example.com>" for n in range(12)), "X-Name": "Jörg"},
    "list_unsubscribe": "https://example.com/unsubscribe/17",
    "attachments": [
        {"filename": INVOICE, "content_type": "application/pdf", "content": "JVBERi0xLjQ="},
        {"filename": "logo.png", "content_type": "image/png", "content": "iVBORw0KGgo=", "content_id": "logo"},
        {"filename": 'a "b".txt', "content_type": "text/plain", "content": ""},
    ],
}  # fmt: skip


def build(payload, *, sender=SENDER, date=DATE) -> bytes:
    return build_message(
        parse_mail({"to": "ada@example.com", "text": "hi", **payload}),
        sender=sender,
        message_id=MESSAGE_ID,
        date=date,
        boundary="=_0192f0c1-7a2b-7c3d-8e4f-5a6b7c8d9e0f",
    )


def read(payload, **values):
    return message_from_bytes(build(payload, **values), policy=default)


def body_of(message, kind: str) -> str:
    return message.get_body((kind,)).get_content().replace("\r\n", "\n")


def name_in(message: bytes) -> str:
    """Return the name in the line `To`; EmailMessage puts spaces between encoded words, against RFC 2047."""
    line = message_from_bytes(message)["to"]
    name = str(make_header(decode_header(line.rpartition(" <")[0])))
    return re.sub(r"\\(.)", r"\1", name[1:-1]) if name.startswith('"') else name


def is_legal(message: bytes) -> bool:
    lines = message.split(b"\r\n")
    return (
        message.endswith(b"\r\n")
        and all(len(line) <= 998 for line in lines)
        and not any(b"\r" in line or b"\n" in line for line in lines)
    )


def test_the_bytes_are_those_of_every_python_version():
    """A change of this file changes what running relays send again: receivers would see two different mails."""
    assert build(FULL) == (GOLDEN / "mail.eml").read_bytes()


def test_nothing_depends_on_time_chance_or_zone():
    assert build(FULL) == build(FULL) == build(FULL, date=DATE.astimezone(timezone(timedelta(hours=5, minutes=30))))


def test_a_full_mail_is_read_back():
    message = read(FULL)
    assert message["to"] == "Jörg Müller <joerg@example.com>, ada@example.com"
    assert message["cc"].addresses[0].addr_spec == "user@xn--exmple-cua.com"
    assert message["cc"].addresses[0].display_name == "Lovelace, Ada"
    assert message["bcc"] is None
    assert b"secret" not in build(FULL)
    assert message["reply-to"] == "help@example.com"
    assert message["from"] == "Shop <shop@example.com>"
    assert message["subject"] == FULL["subject"]
    assert message["message-id"] == MESSAGE_ID
    assert message["date"].datetime == DATE.replace(microsecond=0)
    assert message["auto-submitted"] == "auto-generated"
    assert message["references"] == FULL["headers"]["References"]
    assert message["x-name"] == "Jörg"
    assert message["list-unsubscribe"] == "<https://example.com/unsubscribe/17>"
    assert body_of(message, "plain") == FULL["text"]
    assert body_of(message, "html") == FULL["html"] + "\n"
    files = {part.get_filename(): part for part in message.walk() if part.get_filename()}
    assert list(files) == ["logo.png", INVOICE, 'a "b".txt']
    assert files["logo.png"]["content-id"] == "<logo>"
    assert files["logo.png"].get_content() == base64.b64decode("iVBORw0KGgo=")


def test_the_parts_are_nested_as_readers_expect():
    kinds = [part.get_content_type() for part in read(FULL).walk()]
    assert kinds == [
        "multipart/mixed", "multipart/alternative", "text/plain", "multipart/related", "text/html", "image/png",
        "application/pdf", "text/plain",
    ]  # fmt: skip
    assert [part.get_content_type() for part in read({"html": "<p>"}).walk()] == [
        "multipart/alternative",
        "text/plain",
        "text/html",
    ]
    assert [part.get_content_type() for part in read({}).walk()] == ["text/plain"]


SUBJECTS = [
    *("Ж" * n for n in (25, 80, 300)),
    *("漢" * n for n in (25, 80, 300)),
    *("😀" * n for n in (25, 80, 300)),
    "Привет " * 40,
    "x" * 2000,
    "word " * 300,
    "",
    " ",
    "two  spaces",
    " edges ",
    "=?utf-8?q?not=20encoded?=",
    "a" * 66 + " " + "b" * 100,
    "Re: [list] tab-free, commas; and: colons",
]


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: f"{subject[:8]!r}x{len(subject)}")
def test_e07_every_subject_arrives_as_it_was(subject):
    message = build({"subject": subject})
    assert is_legal(message)
    assert all(len(line) <= 78 for line in message.split(b"\r\n"))
    assert message_from_bytes(message, policy=default)["subject"] == subject


TEXTS = [
    "",
    "x" * 200_000,
    "<p>" + "й" * 50_000,
    "\n" * 5,
    ".\n..\n.",
    "a\r\nb\rc\nd",
    "tab\tend \n",
    "=_=3D\n",
    "no end",
    "\x0c\x1b\u2028",
]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: f"{text[:8]!r}x{len(text)}")
@pytest.mark.parametrize("field", ["text", "html"])
def test_e07_every_body_arrives_as_it_was_up_to_line_ends(field, text):
    message = build({"text": None, field: text})
    assert is_legal(message)
    expected = re.sub("\r\n|\r", "\n", text)
    read_back = body_of(message_from_bytes(message, policy=default), "plain" if field == "text" else "html")
    assert read_back == expected + ("" if expected.endswith("\n") else "\n")


@pytest.mark.parametrize(
    "filename",
    ["a.pdf", 'q"uo\\te.txt'.replace("\\", ""), "日本語のファイル名.pdf", "ü" * 100, "x" * 255, "a;b=c'd*e.txt"],
)
def test_e07_attachments_keep_their_names(filename):
    message = build({"attachments": [{"filename": filename, "content": "YQ=="}]})
    assert is_legal(message)
    [part] = message_from_bytes(message, policy=default).iter_attachments()
    assert part.get_filename() == filename
    assert part.get_content() == b"a"


@pytest.mark.parametrize(
    "name",
    ["Pepé", "Ada", "Lovelace, Ada", 'Ada "the first"', "日本語" * 30, "x" * 255, "a.b", "=?x?=", "O'Neil (shop)"],
)
def test_e06_names_arrive_and_addresses_are_never_encoded(name):
    message = build({"to": {"address": "ada@example.com", "name": name}})
    assert is_legal(message)
    [address] = message_from_bytes(message, policy=default)["to"].addresses
    assert (name_in(message), address.addr_spec) == (name, "ada@example.com")
    assert b"ada@example.com" in message


def test_e06_a_local_part_that_is_not_ascii_stays_utf8():
    message = build({"to": "Jörg <jörg@exämple.com>"})
    assert "<jörg@xn--exmple-cua.com>".encode() in message
    assert build({"to": "Jörg <joerg@exämple.com>"}).isascii()


def test_only_bcc_recipients_are_not_shown():
    message = read({"to": None, "bcc": "eve@example.com"})
    assert message["to"] == "undisclosed-recipients:;"


def test_auto_submitted_may_be_said_otherwise():
    assert read({"headers": {"Auto-Submitted": "no"}}).get_all("auto-submitted") == ["no"]


def test_the_boundary_cannot_be_in_a_part():
    text = "--=_0192f0c1-7a2b-7c3d-8e4f-5a6b7c8d9e0f_1--"
    message = read({"text": text, "html": text})
    assert body_of(message, "plain") == text + "\n"
    assert body_of(message, "html") == text + "\n"


printable = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), max_size=300)
bodies = st.text(st.characters(exclude_categories=["Cs"]), max_size=500)


@given(subject=printable, name=printable.map(lambda text: text[:255]), text=bodies, html=st.none() | bodies)
def test_any_mail_is_legal_stable_and_read_back(subject, name, text, html):
    payload = {"to": {"address": "ada@example.com", "name": name}, "subject": subject, "text": text, "html": html}
    message = build(payload)
    assert message == build(payload)
    assert is_legal(message)
    assert message.isascii()
    parsed = message_from_bytes(message, policy=default)
    assert parsed["subject"] == subject
    assert [address.addr_spec for address in parsed["to"].addresses] == ["ada@example.com"]
    assert "\n".join(body_of(parsed, "plain").splitlines()).rstrip("\n") == "\n".join(text.splitlines()).rstrip("\n")
