"""What each answer means, value by value; test_outcomes.py holds what is true of all of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from outbox.model import Certainty
from relays.http.engine import Answer, Failure, Phase, Timings
from relays.results import Delivered, Hold, Refused
from relays.sinks.webhook.endpoint import resolve_endpoint
from relays.sinks.webhook.outcomes import result_of
from relays.sinks.webhook.settings import parse_settings

TIMINGS = Timings(0.1, 0.2, 0.3)
NAMED = resolve_endpoint(parse_settings({"url": "https://shop.example/hooks"}))
LITERAL = resolve_endpoint(parse_settings({"url": "https://203.0.113.7/hooks"}))


def answered(status: int, body: bytes = b"", *, is_cut: bool = False, **headers: str):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = Answer(
        status=status,
        headers=named,
        body=body,
        is_cut=is_cut,
        peer="203.0.113.7",
        connection_reused=False,
        timings=TIMINGS,
    )
    return result_of(answer, NAMED, 1)


def failed(reason: str, *, endpoint=NAMED, tries: int = 1) -> Refused:
    failure = Failure(
        reason=reason,
        detail="why",
        phase=next(iter(Phase)),
        has_answered=False,
        peer=None,
        connection_reused=False,
        timings=TIMINGS,
    )
    return result_of(failure, endpoint, tries)


@pytest.mark.parametrize("status", [200, 202, 204, 299])
def test_w09_a_success_is_delivered_with_what_was_said(status):
    assert answered(status, b"thanks") == Delivered(status=status, detail="thanks")
    assert answered(status) == Delivered(status=status)


def test_a_body_that_was_cut_says_so_in_success_and_failure():
    whole, cut = answered(200, b"thanks").detail, answered(200, b"thanks", is_cut=True).detail
    assert whole != cut
    assert cut.startswith("thanks")
    assert answered(500, b"sorry", is_cut=True).detail == f"shop.example answered 500: {cut.replace('thanks', 'sorry')}"


def test_w09_an_error_is_refused_as_it_is():
    assert answered(500, b"sorry") == Refused(
        "http_500", detail="shop.example answered 500: sorry", status=500, certainty=Certainty.ANSWERED
    )
    assert answered(404) == Refused("http_404", detail="shop.example answered 404", status=404)


def test_w09_gone_is_dead_and_disables():
    assert answered(410) == Refused(
        "http_410",
        detail="shop.example answered 410",
        permanent=True,
        status=410,
        hold=Hold("disabled", "shop.example answered 410 (gone); resume it when the receiver is back"),
    )


@pytest.mark.parametrize("status", [413, 414, 415, 431])
def test_w09_what_the_same_bytes_can_never_pass_is_dead_and_holds_nothing(status):
    assert answered(status) == Refused(
        f"http_{status}", detail=f"shop.example answered {status}", permanent=True, status=status
    )


@pytest.mark.parametrize("status", [429, 503])
def test_w09_a_throttle_with_retry_after_holds_the_destination_that_long(status):
    said = f"shop.example answered {status} with retry-after 7 s"
    assert answered(status, retry_after="7") == Refused(
        f"http_{status}", detail=said, retry_after=7, status=status, hold=Hold("held", said, 7), is_overload=True
    )


def test_w09_retry_after_of_anything_else_is_the_delivery_s_own():
    assert answered(500, retry_after="7") == Refused(
        "http_500", detail="shop.example answered 500 with retry-after 7 s", retry_after=7, status=500
    )


@pytest.mark.parametrize("status", [429, 502, 503, 504, 529])
def test_w09_too_much_to_do_is_an_overload_and_no_hold(status):
    result = answered(status)
    assert result.is_overload is True
    assert result.hold is None
    assert result.permanent is False


def test_a_date_in_retry_after_is_meant_by_the_receiver_s_own_clock():
    theirs = datetime.now(UTC) + timedelta(hours=2)
    said = answered(
        503,
        retry_after=format_datetime(theirs + timedelta(seconds=90), usegmt=True),
        date=format_datetime(theirs, usegmt=True),
    )
    assert said.retry_after == 90


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        (None, "nowhere (no location)"),
        ("/login?token=SECRET", "another path of the same host"),
        ("https://other.example/a/b?token=SECRET", "https://other.example/…"),
        ("https://other.example?to=https://third.example", "https://other.example/…"),
        ("https://u:p@ss@other.example/a", "https://other.example/…"),
    ],
)
def test_w03_a_redirect_is_refused_and_says_where_it_leads_without_path_and_login(location, shown):
    result = answered(302, b"moved", **({} if location is None else {"location": location}))
    assert (result.reason, result.permanent, result.status) == ("redirect_not_followed", False, 302)
    assert result.detail == (
        f"shop.example answered 302 and redirects to {shown}; set the final URL: redirects are not followed"
    )


@pytest.mark.parametrize(
    ("status", "reason"), [(300, "redirect_not_followed"), (399, "redirect_not_followed"), (400, "http_400")]
)
def test_w03_redirects_are_the_three_hundreds(status, reason):
    assert answered(status).reason == reason


def test_w04_a_refused_address_is_dead_at_once_in_the_url_and_at_the_third_try_behind_a_name():
    assert failed("address_refused", endpoint=LITERAL).permanent is True
    assert [failed("address_refused", tries=tries).permanent for tries in (1, 2, 3, 4)] == [False, False, True, True]


def test_a_failure_says_at_whose_host_and_ends_nothing():
    result = failed("timeout", tries=9)
    assert (result.reason, result.detail, result.permanent) == ("timeout", "shop.example: why", False)
    assert failed("invalid_request").permanent is True
