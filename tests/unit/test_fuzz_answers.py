"""Whatever the other side says, and whoever sends to a receiver: one meaning, or one type of refusal."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outbox.errors import InvalidEvent, InvalidSettings, InvalidSignature
from outbox.headers import check_headers, header_fault
from outbox.mailboxes import has_controls, parse_mailbox
from outbox.policy import Policy
from outbox.webhook_keys import parse_key, parse_signing_key, signed_content
from outbox.webhooks import verify
from relays.decisions import decide
from relays.results import Refused
from relays.sinks.email.replies import Fault, Phase, Trouble, refused_by
from relays.sinks.email.settings import parse_settings as parse_email
from relays.sinks.webhook.retry_after import LONGEST_SECONDS, retry_after_seconds
from relays.sinks.webhook.settings import parse_settings as parse_webhook
from tests.unit.test_signing import KEY_A, PUBLIC_E

NOW = datetime(2026, 12, 1, tzinfo=UTC)

# ---------------------------------------------------------------------- Retry-After

moments = st.datetimes(datetime(1900, 1, 1), datetime(9998, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - UTC is set
dates = st.builds(
    lambda moment, shape: moment.strftime(shape),
    moments,
    st.sampled_from(["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"]),
)


@st.composite
def bent(draw, texts):
    """Return a good value with a few characters removed, doubled or replaced."""
    value = list(draw(texts))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, max(len(value) - 1, 0)))
        value[at : at + draw(st.integers(0, 2))] = draw(st.text("0123456789 ,:-GMT+\x00é", max_size=2))
    return "".join(value)


@example("Tue, 01 Dec 2026 24:00:61 GMT", None)
@example("Tue, 01 Dec 99999 00:00:00 GMT", None)
@example("Tue, 01 Dec 2026 00:00:00 +2500", None)
@given(bent(dates | st.integers(0, 10**12).map(str)), st.none() | bent(dates))
def test_a_bent_retry_after_still_gives_a_bounded_wait_or_none(value, date):
    seconds = retry_after_seconds(value, date=date, now=NOW)
    assert seconds is None or 0 <= seconds <= LONGEST_SECONDS


@given(st.integers(0, 3 * LONGEST_SECONDS), st.integers(-3600, 3600))
def test_both_forms_of_retry_after_ask_for_the_same_wait(seconds, off):
    theirs = NOW + timedelta(seconds=off)
    until = format_datetime(theirs + timedelta(seconds=seconds), usegmt=True)
    date = format_datetime(theirs, usegmt=True)
    assert retry_after_seconds(until, date=date, now=NOW) == min(seconds, LONGEST_SECONDS)
    assert retry_after_seconds(str(seconds), date=date, now=NOW) == min(seconds, LONGEST_SECONDS)


# ---------------------------------------------------------------------- SMTP

phases = st.sampled_from(list(Phase))
texts = st.text(max_size=60) | st.sampled_from(
    ["5.1.1 gone", "4.3.1 full", "5.7.26 spf", "9.9.9", "5.2.2", "4.7.1\n5.1.1"]
)
replies = st.builds(lambda phase, code, text: Trouble(phase, text, code=code), phases, st.integers(400, 599), texts)
faults = st.builds(
    lambda phase, fault, text: Trouble(phase, text, fault=fault), phases, st.sampled_from(list(Fault)), texts
)


@given(replies | faults, st.lists(st.text(min_size=4), max_size=2))
def test_every_reply_in_every_phase_means_one_thing(trouble, hidden):
    refused = refused_by(trouble, "mail.test:25", tuple(hidden))
    assert "\0" not in refused.detail
    assert len(refused.detail.encode()) <= 4096
    assert not (refused.permanent and (refused.hold or not refused.charged)), "the server's fault kills no mail"
    assert refused.charged == (refused.hold is None), "a fault of the server holds its destination"
    assert not (refused.permanent and trouble.code is not None and trouble.code < 500), "4yz is never the end"
    assert not (trouble.is_ambiguous and refused.permanent), "what may have been accepted is not dead by itself"


@given(replies | faults, st.integers(1, 30), st.floats(0, 0.999), st.floats(0, 1e7))
def test_what_is_decided_about_a_reply_can_be_stored(trouble, tries, spread, age):
    refused = refused_by(trouble, "mail.test:25")
    decision = decide(Policy(), refused, tries=tries, age_seconds=age, spread=spread)
    assert (decision.wait_seconds is None) == (decision.outcome == "dead")
    assert decision.wait_seconds is None or 0 <= decision.wait_seconds < 2 * 86400
    assert decision.outcome == "dead" or not refused.permanent


@given(
    st.builds(
        Refused,
        reason=st.text(max_size=10),
        detail=st.none() | st.text(),
        permanent=st.booleans(),
        retry_after=st.none() | st.floats(0, LONGEST_SECONDS),
        wait=st.none() | st.floats(0, LONGEST_SECONDS),
        charged=st.booleans(),
    ),
    st.integers(0, 10_000),
    st.none() | st.floats(1, 1e9),
)
def test_every_refusal_is_tried_again_or_dead(refused, tries, max_age):
    decision = decide(Policy(max_age=max_age), refused, tries=tries, age_seconds=60.0, spread=0.5)
    is_dead = decision.outcome == "dead"
    assert is_dead == (decision.wait_seconds is None)
    assert decision.detail is None or ("\0" not in decision.detail and len(decision.detail.encode()) <= 4096)
    assert not (is_dead and not refused.permanent and not refused.charged), "a fault of others is never the end"


# ---------------------------------------------------------------------- headers and mailboxes


@given(st.text(max_size=6) | st.sampled_from(["Host", "webhook-id", "X-A", "x-a\r\ny", "ce-id"]), st.text(max_size=9))
def test_no_header_that_passes_can_end_its_line(name, value):
    if header_fault(name, value) is None:
        line = f"{name}: {value}"
        assert line.isascii()
        assert line.isprintable()
        assert value == value.strip()
        assert ":" not in name
        assert not name.lower().startswith(("webhook-", "ce-", "proxy-"))


@given(st.dictionaries(st.text(max_size=6), st.text(max_size=6) | st.integers() | st.none(), max_size=25))
def test_headers_are_fine_one_by_one_and_together_or_refused(headers):
    try:
        check_headers(headers)
    except InvalidEvent:
        return
    assert len(headers) <= 20
    assert len({name.lower() for name in headers}) == len(headers)
    assert all(header_fault(name, value) is None for name, value in headers.items())


@example("Ada <ada@example.com>\r\nBcc: eve@example.com")
@example('"a\\" <b@c>" <ada@example.com>')
@example("ada@exa\u0300mple.com")
@example("ada@" + "a." * 130 + "com")
@example({"address": "ada@example.com", "name": "\ud800"})
@given(
    st.text()
    | st.none()
    | st.builds("{} <{}@{}>".format, st.text(max_size=9), st.text(max_size=9), st.text(max_size=9))
    | st.dictionaries(st.sampled_from(["address", "name", "x"]), st.text(max_size=12) | st.integers())
)
def test_no_mailbox_that_passes_can_end_its_header_or_command(value):
    try:
        box = parse_mailbox(value, "$.to[0]")
    except InvalidEvent as refused:
        assert str(refused).startswith("$.to[0]")  # noqa: PT017 - both ends are right, nothing else is
        return
    assert not has_controls(box.address + box.name)
    assert not set(" <>,;") & set(box.address)
    assert box.address.count("@") == 1
    assert box.domain.isascii()


# ---------------------------------------------------------------------- settings of sinks

odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
WEBHOOK = ["secret", "previous_secrets", "body", "source", "headers", "forward_headers", "allow_http", "allow_networks"]
WEBHOOK += ["dead_on", "ca_file", "client_certificate", "client_key", "engine", "http2", "proxy", "connect_timeout"]
EMAIL = ["host", "port", "security", "username", "password", "from", "return_path", "message_id_domain", "connections"]
EMAIL += ["on_ambiguous", "ca_file", "ehlo", "command_timeout", "final_dot_timeout", "max_message_bytes"]
near = st.sampled_from(
    ["env:A", KEY_A, "1s", "https://a.example/", "10.0.0.0/8", "a.example", "ada@a.example", [KEY_A, 3]]
)


@pytest.mark.parametrize(
    ("parse", "names", "needed"),
    [
        (parse_webhook, WEBHOOK, {"url": "https://shop.example/"}),
        (parse_email, EMAIL, {"host": "mail.test", "from": "ada@a.example"}),
    ],
)
@given(data=st.data())
def test_any_settings_are_read_or_refused_by_name(parse, names, needed, data):
    settings = data.draw(st.dictionaries(st.sampled_from(names), odd | near, max_size=3))
    refused = None
    try:
        parse({**needed, **settings})
    except InvalidSettings as error:
        refused = str(error)
    assert refused is None or any(name in refused for name in [*settings, "username", "security"])


# ---------------------------------------------------------------------- receivers


@example("whpk_" + b64encode(b"\xff" * 32).decode())
@example("whsk_" + b64encode(b"\x00" * 64).decode())
@given(
    st.builds(
        "{}{}".format,
        st.sampled_from(["", "whsec_", "whsk_", "whpk_", "WHSEC_"]),
        st.binary(max_size=66).map(lambda data: b64encode(data).decode()) | st.text(max_size=50),
    )
)
def test_any_text_is_a_key_or_refused_unseen(secret):
    for parse in (parse_key, parse_signing_key):
        try:
            parse(secret, "secret")
        except InvalidSettings as refused:
            assert secret not in str(refused) or len(secret) < 10  # noqa: PT017 - both ends are right


@st.composite
def requests(draw):
    """Return the headers and body of a request that was signed, and then changed in one place."""
    body = draw(st.binary(max_size=40))
    signature = parse_signing_key(KEY_A, "secret").sign(signed_content("evt_1", "1000", body))
    headers = {"webhook-id": "evt_1", "webhook-timestamp": "1000", "webhook-signature": signature}
    name = draw(st.sampled_from([*headers, "body"]))
    if name == "body":
        return headers, draw(st.binary(max_size=40).filter(lambda other: other != body))
    return {**headers, name: draw(st.text(max_size=20) | bent(st.just(headers[name])))}, body


@given(requests(), st.sampled_from([KEY_A, PUBLIC_E, "both"]))
def test_a_changed_request_is_refused_with_one_type_or_means_the_same(request, secret):
    headers, body = request
    try:
        webhook_id = verify(headers, body, [KEY_A, PUBLIC_E] if secret == "both" else secret, now=1000)
    except InvalidSignature:
        return
    assert webhook_id == "evt_1"
    assert headers["webhook-timestamp"] == "1000"


@given(st.binary(), st.dictionaries(st.text(max_size=20), st.text(max_size=20)), st.floats())
def test_any_bytes_are_refused_with_one_type(body, headers, now):
    with pytest.raises(InvalidSignature):
        verify(headers, body, [KEY_A, PUBLIC_E], now=now)
