"""Whatever people, files and environments say: it is read, or refused by name with one type of error."""

from __future__ import annotations

import json
import math
import string

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from psycopg.conninfo import make_conninfo

from outbox.cli.destinations import _pairs
from outbox.configuration import differences, parse_configuration
from outbox.database import connect
from outbox.durations import parse_duration
from outbox.errors import DatabaseUnreachable, UsageError
from outbox.masking import shown_settings
from outbox.policy import Policy, parse_policy
from outbox.secrets import REDACTED, redact, resolve_secret, shown_secret

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers().map(lambda n: n**40) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def read(reader, *arguments):
    """Return what was read and None, or None and why it was refused."""
    try:
        return reader(*arguments), None
    except UsageError as error:
        return None, str(error)


words = st.text(string.ascii_letters + string.digits, min_size=6, max_size=20)

# ---------------------------------------------------------------------- durations


@example(10**400)
@example("9" * 5000 + "d")
@given(anything)
def test_a_duration_is_finite_and_at_most_a_year_or_refused(value):
    seconds, refused = read(parse_duration, value, "--grace")
    assert refused.startswith("--grace") if refused else 0 <= seconds <= 366 * 86400


@given(st.from_regex(r"[0-9]{1,4}(\.[0-9]{1,3})?(ms|s|m|h|d)", fullmatch=True))
def test_a_duration_is_its_number_times_its_unit(text):
    number = text.rstrip("msdh")
    unit = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}[text.removeprefix(number)]
    if float(number) * unit <= 366 * 86400:
        assert parse_duration(text, "x") == pytest.approx(float(number) * unit)


# ---------------------------------------------------------------------- policies

POLICY_NAMES = ["schedule", "base", "factor", "cap", "jitter", "max_attempts", "max_age", "timeout", "max_in_flight"]


@example({"max_attempts": 10**400})
@example({"factor": 10**400})
@example({"rate": "9" * 400 + "/s"})
@example({"on_dead": []})
@example({"base": 10**400})
@given(st.dictionaries(st.sampled_from([*POLICY_NAMES, "rate", "on_dead"]) | st.text(max_size=5), anything, max_size=4))
def test_a_policy_makes_sense_or_is_refused(values):
    policy, refused = read(parse_policy, values, Policy())
    if refused:
        assert refused.startswith("policy")
    else:
        assert policy.max_attempts >= 1
        assert policy.timeout > 0
        assert policy.rate_per_second is None or math.isfinite(policy.rate_per_second)
        assert all(math.isfinite(seconds) for seconds in policy.schedule or (policy.base, policy.cap, policy.factor))


# ---------------------------------------------------------------------- outbox.toml

scraps = st.sampled_from(
    [
        "[destinations.shop]\n",
        "[destinations.'a b'.policy]\n",
        "[[destinations]]\n",
        'sink = "webhook"\n',
        'sink = "\\u0000"\n',
        "events = [",
        "'order.*', ]\n",
        "policy = {",
        "max_attempts = 3}\n",
        "at = 2026-12-01T00:00:00Z\n",
        "x.y.z = nan\n",
        "big = " + "9" * 5000 + "\n",
        "deep = " + "[" * 3000 + "\n",
        "deep = " + "{a=" * 3000 + "\n",
        "'''",
        "\\",
        "\ufeff",
        "\x00",
        "\r",
        "=",
    ]
)


@example("[destinations.shop]\nsink='webhook'\nx = " + "9" * 5000)
@example("x = " + "[" * 3000)
@example("x = " + "[" * 3000 + "]" * 3000)
@given(st.lists(scraps | st.text(max_size=10), max_size=8).map("".join))
def test_any_text_is_a_configuration_or_refused_with_the_place(text):
    wanted, refused = read(parse_configuration, text, "outbox.toml")
    if refused:
        assert refused.startswith("outbox.toml")
    else:
        assert [change.verb for change in differences(wanted, [], prune=True)] == ["add"] * len(wanted)


# ---------------------------------------------------------------------- KEY=VALUE


@example(["x=" + "[" * 100_000])
@example(["x=NaN"])
@example(["x=[1e999, -Infinity]"])
@example(["x=" + "9" * 5000])
@given(st.lists(st.text(max_size=8) | st.builds("{}={}".format, words, st.text(max_size=12)), max_size=4))
def test_key_and_value_are_read_as_json_or_text_or_refused(options):
    pairs, refused = read(_pairs, options, "--set")
    if refused:
        assert refused.startswith("--set")
    else:
        assert set(pairs) == {option.partition("=")[0] for option in options}


@given(words, st.text(min_size=1))
def test_a_value_that_is_no_json_is_itself(key, value):
    try:
        json.loads(value)
    except ValueError:
        assert _pairs([f"{key}={value}"], "--set") == {key: value}


# ---------------------------------------------------------------------- secrets


@example("file:\0")
@example("file:\ud800")
@example("env:\0")
@example("env:\ud800")
@example("env:=")
@example("file:")
@example("file:/")
@given(st.one_of(st.text(), st.text().map("env:{}".format), st.text().map("file:{}".format)))
def test_any_reference_is_resolved_or_missing(reference):
    secret, refused = read(resolve_secret, reference, "secret")
    if reference.startswith(("env:", "file:")):
        assert refused is None or refused.startswith("secret")
    else:
        assert secret == reference


@given(words, st.text())
def test_an_inline_secret_is_never_shown_a_reference_always(secret, text):
    assert shown_secret(secret) == REDACTED
    assert shown_secret(f"env:{text}") == f"env:{text}"


@given(st.lists(words, max_size=3), st.text(max_size=20), st.text(max_size=20))
def test_no_secret_survives_redaction(secrets, before, after):
    secrets = sorted(secrets, key=len, reverse=True)
    text = before + "/".join(secrets) + after
    shown = redact(text, secrets)
    assert not [secret for secret in secrets if secret in shown.replace(REDACTED, "")]


@given(
    st.sampled_from(["webhook", "email", "handler", "not_installed"]), st.dictionaries(st.text(max_size=9), anything)
)
def test_any_stored_settings_can_be_shown(sink, settings):
    """Show a row that somebody wrote by hand, too."""
    shown_settings(sink, settings)


@pytest.mark.parametrize(
    ("sink", "name"),
    [("webhook", "secret"), ("webhook", "url"), ("email", "password"), ("email", "url"), ("not_installed", "x")],
)
@given(word=words)
def test_settings_are_shown_without_what_is_secret(sink, name, word):
    assume(word not in "[redacted]")  # the mask itself
    hidden = f"https://{word}user:{word}@shop.example/{word}?{word}#{word}" if name == "url" else word
    for value in (hidden, [hidden, hidden]) if name == "secret" else (hidden,):
        assert word not in json.dumps(shown_settings(sink, {name: value}))


# ---------------------------------------------------------------------- DSN

odd = st.text(string.ascii_letters + "'\\ =@:/%?#&;$\"", min_size=6, max_size=20)


@given(odd)
def test_a_password_is_in_no_message_about_the_database(password):
    dsn = make_conninfo("host=127.0.0.1 port=1 user=ada dbname=shop", password=password)
    with pytest.raises(DatabaseUnreachable) as refused:
        connect(dsn, connect_timeout=2)
    assert password not in str(refused.value)
    assert refused.value.__cause__ is None
    assert "127.0.0.1" in str(refused.value)


@given(st.text(st.characters(codec="ascii"), max_size=20), words)
def test_a_dsn_is_refused_without_the_password_in_it(scrap, word):
    """How libpq splits a broken DSN is its affair; what stands where a password stands may not come back."""
    secret = f"geheim{word}"
    for dsn in (f"postgresql://ada:{secret}@127.0.0.1:{scrap}/x", f"host='127.0.0.1 password={secret} {scrap}"):
        with pytest.raises((DatabaseUnreachable, UsageError)) as refused:
            connect(dsn, connect_timeout=2, port=1)
        assert secret not in str(refused.value)
