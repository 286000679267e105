from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.sinks.webhook.retry_after import LONGEST_SECONDS, retry_after_seconds

NOW = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        ("0", 0),
        ("  60 ", 60),
        ("9999999999", 86400),
        ("Tue, 01 Dec 2026 00:02:00 GMT", 120),
        ("Tuesday, 01-Dec-26 00:02:00 GMT", 120),
        ("Tue Dec  1 00:02:00 2026", 120),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86400),
        (None, None),
        ("-5", None),
        ("120.5", None),
        ("1e3", None),
        ("123456789012345678901", None),
        ("tomorrow", None),
        ("", None),
        ("60, 120", None),
        ("\N{ARABIC-INDIC DIGIT ONE}\N{ARABIC-INDIC DIGIT TWO}", None),
        ("2026-12-01T00:02:00Z", None),
        ("Tue, 99 Dec 2026 00:02:00 GMT", None),
        ("0x10", None),
        ("+60", None),
        ("1 2", None),
    ],
)
def test_retry_after_is_read_in_both_forms_and_nothing_else(value, seconds):
    assert retry_after_seconds(value, date=None, now=NOW) == seconds


def test_date_form_is_meant_by_the_receivers_clock():
    late = datetime(2026, 12, 1, 0, 1, tzinfo=UTC)
    until = "Tue, 01 Dec 2026 00:02:00 GMT"
    assert retry_after_seconds(until, date="Tue, 01 Dec 2026 00:00:00 GMT", now=late) == 120
    assert retry_after_seconds(until, date=None, now=late) == 60


def test_a_receivers_clock_that_is_days_off_is_not_believed():
    until = "Tue, 01 Dec 2026 00:02:00 GMT"
    assert retry_after_seconds(until, date="Thu, 01 Jan 1970 00:00:00 GMT", now=NOW) == 120


@given(st.text(), st.none() | st.text())
def test_whatever_the_header_holds_the_wait_is_bounded(value, date):
    seconds = retry_after_seconds(value, date=date, now=NOW)
    assert seconds is None or 0 <= seconds <= LONGEST_SECONDS


@given(st.datetimes(timezones=st.just(UTC)))
def test_any_http_date_gives_a_bounded_wait(moment):
    from email.utils import format_datetime

    if moment.year >= 1000:
        seconds = retry_after_seconds(format_datetime(moment, usegmt=True), date=None, now=NOW)
        assert seconds is not None
        assert 0 <= seconds <= LONGEST_SECONDS


def test_an_offset_that_is_given_counts():
    now = datetime(2026, 12, 1, 12, tzinfo=UTC)
    assert retry_after_seconds("Tue, 01 Dec 2026 07:01:00 -0500", date=None, now=now) == 60


def test_a_receivers_clock_exactly_a_day_off_is_believed():
    now = datetime(2026, 12, 1, 12, tzinfo=UTC)
    date, until = "Wed, 02 Dec 2026 12:00:00 GMT", "Wed, 02 Dec 2026 12:01:00 GMT"
    assert retry_after_seconds(until, date=date, now=now) == 60
