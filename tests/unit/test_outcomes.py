from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from outbox.model import Certainty
from relays.details import clean_detail, shown_body
from relays.http.engine import Answer, Failure, Phase, Timings
from relays.results import Delivered, Refused
from relays.sinks.webhook.endpoint import resolve_endpoint
from relays.sinks.webhook.outcomes import result_of
from relays.sinks.webhook.retry_after import LONGEST_SECONDS
from relays.sinks.webhook.settings import parse_settings

TIMINGS = Timings(0.1, 0.2, 0.3)
ENDPOINT = resolve_endpoint(
    parse_settings(
        {"url": "https://shop.example/services/SECRET2?token=SECRET3", "headers": {"x-key": "Bearer SECRET4"}}
    )
)

header_values = st.text(max_size=50)
answers = st.builds(
    Answer,
    status=st.integers(100, 999),
    headers=st.dictionaries(st.sampled_from(["retry-after", "location", "date", "x"]), header_values),
    body=st.binary(max_size=4096) | st.text(max_size=1500).map(str.encode),
    is_cut=st.booleans(),
    peer=st.just("127.0.0.1"),
    connection_reused=st.booleans(),
    timings=st.just(TIMINGS),
)
failures = st.builds(
    Failure,
    reason=st.sampled_from(["timeout", "disconnected", "dns_failed", "address_refused", "invalid_request"]),
    detail=st.text(max_size=6000),
    phase=st.sampled_from(list(Phase)),
    has_answered=st.booleans(),
    peer=st.none(),
    connection_reused=st.booleans(),
    timings=st.just(TIMINGS),
)


def is_storable(text: str | None) -> bool:
    """Whether PostgreSQL takes the text into the column `detail`."""
    return text is None or ("\0" not in text and len(text.encode()) <= 4096)


@given(answers, st.integers(1, 1000))
def test_delivered_means_2xx_and_everything_is_storable(answer, tries):
    result = result_of(answer, ENDPOINT, tries)
    assert isinstance(result, Delivered) is (200 <= answer.status < 300)
    assert result.status == answer.status
    assert is_storable(result.detail)
    if isinstance(result, Refused):
        assert result.certainty is Certainty.ANSWERED
        assert result.retry_after is None or 0 <= result.retry_after <= LONGEST_SECONDS
        assert result.hold is None or is_storable(result.hold.reason)


@given(failures, st.integers(1, 1000))
def test_failure_is_never_delivered_and_says_what_is_known(failure, tries):
    result = result_of(failure, ENDPOINT, tries)
    assert isinstance(result, Refused)
    assert result.status is None
    assert result.certainty is failure.phase.certainty
    assert is_storable(result.detail)
    assert result.permanent is (
        failure.reason == "invalid_request" or (failure.reason == "address_refused" and tries >= 3)
    )


@given(
    st.text(),
    st.lists(st.sampled_from(["SECRET2", "SECRET3", "SECRET4", "Bearer SECRET4", "token=SECRET3"])),
    st.text(),
)
def test_w12_no_secret_survives_in_an_answer_wherever_it_stands(before, secrets, after):
    body = (before + " ".join(secrets) + after).encode("utf-8", "replace")
    for status in (200, 500):
        result = result_of(Answer(status, {}, body, False, None, False, TIMINGS), ENDPOINT, 1)
        assert not any(secret in (result.detail or "") for secret in ("SECRET2", "SECRET3", "SECRET4"))


@given(st.text(max_size=9000))
def test_cleaning_is_idempotent_and_bounded(text):
    once = clean_detail(text, ())
    assert is_storable(once)
    assert clean_detail(once, ()) == once


@given(st.text(min_size=1), st.integers(0, 4))
def test_character_cut_in_two_by_the_limit_is_no_binary(text, lost):
    data = text.encode("utf-8", "replace")
    cut = data[: max(len(data) - lost, 0)]
    if lost < len(text[-1].encode("utf-8", "replace")):
        assert "bytes that are not UTF-8" not in shown_body(cut, is_cut=True)
