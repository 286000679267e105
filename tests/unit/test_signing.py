from __future__ import annotations

import hashlib
import hmac
import sys
from base64 import b64encode
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook

from outbox.errors import InvalidSettings, InvalidSignature
from outbox.webhook_keys import generate_secret, parse_key, parse_signing_key
from outbox.webhooks import verify
from relays.sinks.webhook.signing import signed_headers

KEY_A = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
KEY_B = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
KEY_C = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
KEY_E = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
PUBLIC_E = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
BODY_B = (
    '{"type":"contact.created","timestamp":"2026-12-01T00:00:00Z",'
    '"data":{"name":"Zoë \N{EN DASH} 東京","amount":"12.50"}}'
).encode()
ID_B = "evt_0192f0c1-7a2b-7c3d-8e4f-5a6b7c8d9e0f"

VECTORS = {
    "A": ([KEY_A], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}',
          "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
    "B": ([KEY_B], ID_B, 1796083200, BODY_B, "v1,fIl/iL9W8HRyg34oz3ErFwZWoQAvlzIRKR70pXO1HU8="),
    "C": ([KEY_C], "msg_empty", 1796083200, b"", "v1,+MKd2On83Is4h3iwhv4XGHjcdXb9KALWVQaiOnrWc8w="),
    "D": ([KEY_B, KEY_A], ID_B, 1796083200, BODY_B,
          "v1,fIl/iL9W8HRyg34oz3ErFwZWoQAvlzIRKR70pXO1HU8= v1,LEDa1beJgl7RZypErt+D0KegcsCfRXhXM51x7TAaMbg="),
    "E": ([KEY_E], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}',
          "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="),
}  # fmt: skip


def signed(secrets, webhook_id, seconds, body):
    return signed_headers([parse_signing_key(secret, "secret") for secret in secrets], webhook_id, seconds, body)


def test_body_of_vector_b_is_the_published_one():
    assert len(BODY_B) == 112
    assert hashlib.sha256(BODY_B).hexdigest() == "09657ce05b3348c0c02267e045e46c393c14e485081ae8abf79c5513de561314"


@pytest.mark.parametrize("vector", VECTORS)
def test_signature_equals_the_published_vector(vector):
    secrets, webhook_id, seconds, body, signature = VECTORS[vector]
    assert signed(secrets, webhook_id, seconds, body) == {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": signature,
    }


@pytest.mark.parametrize("vector", VECTORS)
def test_verify_accepts_the_published_vector_with_any_one_of_its_keys(vector):
    secrets, webhook_id, seconds, body, signature = VECTORS[vector]
    headers = {"Webhook-Id": webhook_id, "WEBHOOK-TIMESTAMP": str(seconds), "webhook-signature": signature}
    for secret in secrets:
        assert verify(headers, body, secret, now=seconds) == webhook_id


def test_verify_accepts_ed25519_with_the_public_key_alone():
    _, webhook_id, seconds, body, signature = VECTORS["E"]
    headers = {"webhook-id": webhook_id, "webhook-timestamp": str(seconds), "webhook-signature": signature}
    assert verify(headers, body, [KEY_A, PUBLIC_E], now=seconds) == webhook_id


@given(secret=st.binary(min_size=24, max_size=64), body=st.text().map(str.encode))
def test_independent_package_accepts_what_is_signed(secret, body):
    encoded = "whsec_" + b64encode(secret).decode()
    headers = signed([encoded], "evt_1", int(datetime.now(UTC).timestamp()), body)
    Webhook(encoded).verify(body, headers, json_parse=False)


@given(secret=st.binary(min_size=24, max_size=64), body=st.binary())
def test_signature_is_the_standard_librarys_hmac(secret, body):
    key = parse_signing_key("whsec_" + b64encode(secret).decode(), "secret")
    assert key.sign(body) == "v1," + b64encode(hmac.digest(secret, body, "sha256")).decode()


@given(body=st.binary(), change=st.integers(min_value=0), secret=st.binary(min_size=24, max_size=64))
def test_any_changed_byte_is_noticed(body, change, secret):
    encoded = "whsec_" + b64encode(secret).decode()
    headers = signed([encoded], "evt_1", 1000, body)
    assert verify(headers, body, encoded, now=1000) == "evt_1"
    at = change % (len(body) + 1)
    changed = body[:at] + bytes([(body[at] + 1) % 256 if at < len(body) else 0]) + body[at + 1 :]
    with pytest.raises(InvalidSignature):
        verify(headers, changed, encoded, now=1000)


def valid(**changes):
    headers = signed([KEY_A], "evt_1", 1000, b"{}")
    return {**headers, **changes}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        valid(**{"webhook-id": ""}),
        valid(**{"webhook-id": "evt_2"}),
        valid(**{"webhook-id": "évt"}),
        valid(**{"webhook-id": "x" * 1000}),
        valid(**{"webhook-timestamp": "1000.0"}),
        valid(**{"webhook-timestamp": "\N{ARABIC-INDIC DIGIT ONE}000"}),
        valid(**{"webhook-timestamp": "-1"}),
        valid(**{"webhook-timestamp": "9" * 400}),
        valid(**{"webhook-timestamp": "1001"}),
        valid(**{"webhook-signature": ""}),
        valid(**{"webhook-signature": "v1"}),
        valid(**{"webhook-signature": "v1,"}),
        valid(**{"webhook-signature": "v1,é v1,*** v9,AAAA ,,, v1,AAAA"}),
        valid(**{"webhook-signature": "v1a,AAAA"}),
        valid(**{"webhook-signature": valid()["webhook-signature"].replace("v1,", "v1a,")}),
    ],
)
def test_whatever_is_wrong_with_a_request_is_one_exception_type(headers):
    with pytest.raises(InvalidSignature):
        verify(headers, b"{}", [KEY_A, PUBLIC_E], now=1000)


@given(st.dictionaries(st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature", "x"]), st.text()))
def test_no_headers_make_verify_raise_anything_else(headers):
    with pytest.raises(InvalidSignature):
        verify(headers, b"\xff\x00", [KEY_A, PUBLIC_E])


def test_body_that_is_not_utf8_is_verified_as_it_is():
    headers = signed([KEY_A], "evt_1", 1000, b"\xff\xfe\x00")
    assert verify(headers, b"\xff\xfe\x00", KEY_A, now=1000) == "evt_1"


def test_parts_cannot_change_places_around_a_full_stop():
    headers = signed([KEY_A], "evt_1", 1000, b"1001.{}")
    moved = {**headers, "webhook-id": "evt_1.1000", "webhook-timestamp": "1001"}
    with pytest.raises(InvalidSignature, match="webhook-id"):
        verify(moved, b"{}", KEY_A, now=1000)


@pytest.mark.parametrize(("now", "is_valid"), [(700, True), (699, False), (1300, True), (1301, False)])
def test_tolerance_bounds_both_directions(now, is_valid):
    headers = signed([KEY_A], "evt_1", 1000, b"{}")
    if is_valid:
        assert verify(headers, b"{}", KEY_A, now=now) == "evt_1"
    else:
        with pytest.raises(InvalidSignature, match="webhook-timestamp"):
            verify(headers, b"{}", KEY_A, now=now)
    assert verify(headers, b"{}", KEY_A, tolerance=500, now=now) == "evt_1"


def test_text_body_is_wrong_use():
    with pytest.raises(TypeError, match="bytes"):
        verify({}, "{}", KEY_A)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        "plain text",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS",  # no padding
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw==",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n",
        "whsec_ MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa-_",  # the URL alphabet
        "whsec_QUJD",  # 3 bytes
        "whsec_" + "QUJD" * 22,  # 66 bytes
        "whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsk_" + KEY_E.removeprefix("whsk_")[:-8] + "AAAAAA==",  # halves of two keys
        PUBLIC_E,
        "whsec_é",
    ],
)
def test_secret_that_could_be_read_differently_is_refused_and_never_shown(secret):
    with pytest.raises(InvalidSettings) as refused:
        parse_signing_key(secret, "secret[0]")
    assert "secret[0]" in str(refused.value)
    assert len(secret) < 8 or secret[6:] not in str(refused.value)


def test_generated_secret_is_fresh_and_strong():
    one, two = generate_secret(), generate_secret()
    assert one != two
    assert parse_key(one, "secret").version == "v1"


def test_keys_never_show_their_secret():
    for secret in (KEY_A, KEY_E):
        assert secret.partition("_")[2][:10] not in repr(parse_signing_key(secret, "secret"))


def test_ed25519_without_cryptography_names_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("cryptography")]:
        monkeypatch.setitem(sys.modules, name, None)
    for secret in (KEY_E, PUBLIC_E):
        with pytest.raises(InvalidSettings, match=r"outbox-relay\[ed25519\]"):
            parse_key(secret, "secret")


def test_without_keys_nothing_is_signed():
    assert "webhook-signature" not in signed_headers([], "evt_1", 1000, b"{}")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"webhook-id": ""}, "webhook-id: the header is missing, too long, or has a full stop or odd characters"),
        ({"webhook-timestamp": "now"}, "webhook-timestamp: the header is missing or not a number of seconds"),
        ({"webhook-timestamp": "1301"}, "webhook-timestamp: 301 s ahead of this clock"),
        ({"webhook-timestamp": "699"}, "webhook-timestamp: 301 s behind this clock"),
        ({"webhook-signature": "v1,AAAA"}, "webhook-signature: no signature fits these secrets and this body"),
    ],
)
def test_a_refused_request_says_what_is_wrong_with_it(changes, message):
    headers = {**signed([KEY_A], "evt_1", 1000, b"{}"), **changes}
    with pytest.raises(InvalidSignature) as refused:
        verify(headers, b"{}", KEY_A, now=1000)
    assert str(refused.value) == message


@pytest.mark.parametrize("missing", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_missing_header_is_refused_under_its_own_name(missing):
    headers = signed([KEY_A], "evt_1", 1000, b"{}")
    del headers[missing]
    with pytest.raises(InvalidSignature, match=f"^{missing}: "):
        verify(headers, b"{}", KEY_A, now=1000)


def test_a_signature_is_found_among_others_that_are_none():
    signature = signed([KEY_A], "evt_1", 1000, b"{}")["webhook-signature"]
    headers = {**signed([KEY_A], "evt_1", 1000, b"{}"), "webhook-signature": f"v1,!!! v9,AAAA {signature}"}
    assert verify(headers, b"{}", KEY_A, now=1000) == "evt_1"


@pytest.mark.parametrize("spoilt", ["{0}!", "v1,{0}", "\t{0}"])
def test_a_signature_with_anything_around_it_is_none(spoilt):
    headers = signed([KEY_A], "evt_1", 1000, b"{}")
    headers["webhook-signature"] = spoilt.format(headers["webhook-signature"])
    with pytest.raises(InvalidSignature, match=r"^webhook-signature: "):
        verify(headers, b"{}", KEY_A, now=1000)


def test_without_a_clock_given_it_is_the_one_of_this_machine():
    headers = signed([KEY_A], "evt_1", int(datetime.now(UTC).timestamp()), b"{}")
    assert verify(headers, b"{}", KEY_A) == "evt_1"


def test_which_of_several_secrets_is_none_is_said():
    headers = signed([KEY_A], "evt_1", 1000, b"{}")
    with pytest.raises(InvalidSettings, match=r"secrets\[1\]"):
        verify(headers, b"{}", [KEY_A, "whsec_short"], now=1000)


def test_wrong_use_names_the_type_that_was_given():
    with pytest.raises(TypeError, match="not str"):
        verify({}, "{}", KEY_A)


def test_a_second_ahead_is_ahead():
    with pytest.raises(InvalidSignature, match="1 s ahead of this clock"):
        verify(signed([KEY_A], "evt_1", 1001, b"{}"), b"{}", KEY_A, now=1000, tolerance=0.5)
