"""What an answer or a failure means for the delivery and its destination: one table. Pure, no I/O.

2xx                      delivered, whatever the body does after
3xx                      refused: never followed
410                      dead; the destination is disabled, the rest of its deliveries are held
413 414 415 431          dead: the same bytes can never succeed (setting `dead_on`)
429 503                  again; with Retry-After the whole destination is held until then, without it as 502
502 504 529              again, and half as many at once: the destination has too much to do
everything else          again, not before its Retry-After
a refused address        dead when it stands in the URL; a name that leads there is tried 3 times
a request nobody can send  dead: settings that break the rules can only be changed
"""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

from outbox.model import Certainty
from relays.details import clean_detail, shown_body
from relays.http.engine import Answer
from relays.results import Delivered, Hold, Refused
from relays.sinks.webhook.retry_after import retry_after_seconds

if TYPE_CHECKING:
    from relays.http.engine import Failure
    from relays.results import Result
    from relays.sinks.webhook.endpoint import Endpoint

__all__ = ["TRIES_OF_REFUSED_NAME", "result_of"]

TRIES_OF_REFUSED_NAME = 3
"""A name may lead to a private address for a while only: DNS breaks, too."""

_SITE_OVERLOADED = 529
"""Not registered, but what several large services answer."""

_OVERLOADED = frozenset(
    (
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
        _SITE_OVERLOADED,
    )
)
_THROTTLES = frozenset((HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE))


def result_of(outcome: Answer | Failure, endpoint: Endpoint, tries: int) -> Result:
    """Return what `outcome` of try number `tries` (from 1) means."""
    if not isinstance(outcome, Answer):
        return _failed(outcome, endpoint, tries)
    if HTTPStatus.OK <= outcome.status < HTTPStatus.MULTIPLE_CHOICES:
        return Delivered(status=outcome.status, detail=_body_detail(outcome, endpoint))
    return _refused(outcome, endpoint)


def _refused(answer: Answer, endpoint: Endpoint) -> Refused:
    retry_after = retry_after_seconds(
        answer.headers.get("retry-after"), date=answer.headers.get("date"), now=datetime.now(UTC)
    )
    return Refused(
        reason=_reason(answer.status),
        detail=clean_detail(_explanation(answer, endpoint, retry_after), endpoint.hidden),
        permanent=answer.status == HTTPStatus.GONE or answer.status in endpoint.dead_on,
        retry_after=retry_after,
        certainty=Certainty.ANSWERED,
        status=answer.status,
        hold=_hold(answer.status, retry_after, endpoint),
        is_overload=answer.status in _OVERLOADED,
    )


def _reason(status: int) -> str:
    is_redirect = HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST
    return "redirect_not_followed" if is_redirect else f"http_{status}"


def _explanation(answer: Answer, endpoint: Endpoint, retry_after: int | None) -> str:
    said = shown_body(answer.body, is_cut=answer.is_cut)
    intro = f"{endpoint.url.authority} answered {answer.status}"
    if retry_after:
        intro = f"{intro} with retry-after {retry_after} s"  # outbox/reasons.py looks for these words
    if _reason(answer.status) == "redirect_not_followed":
        location = _shown_location(answer.headers.get("location"))
        return f"{intro} and redirects to {location}; set the final URL: redirects are not followed"
    return f"{intro}: {said}" if said else intro


def _shown_location(location: str | None) -> str:
    """Return where a redirect leads, without path and query: they may be credentials."""
    if not location:
        return "nowhere (no location)"
    scheme, separator, rest = location.partition("://")
    if not separator:
        return "another path of the same host"
    return f"{scheme[:16]}://{rest.split('/')[0].split('?')[0].rpartition('@')[2][:253]}/…"


def _hold(status: int, retry_after: int | None, endpoint: Endpoint) -> Hold | None:
    host = endpoint.url.authority
    if status == HTTPStatus.GONE:
        return Hold("disabled", f"{host} answered 410 (gone); resume it when the receiver is back")
    if status in _THROTTLES and retry_after:
        return Hold("held", f"{host} answered {status} with retry-after {retry_after} s", retry_after)
    return None


def _failed(failure: Failure, endpoint: Endpoint, tries: int) -> Refused:
    is_name = failure.reason == "address_refused" and not endpoint.url.is_literal
    return Refused(
        reason=failure.reason,
        detail=clean_detail(f"{endpoint.url.authority}: {failure.detail}", endpoint.hidden),
        permanent=(
            failure.reason == "invalid_request"
            or (failure.reason == "address_refused" and (not is_name or tries >= TRIES_OF_REFUSED_NAME))
        ),
        certainty=failure.certainty,
    )


def _body_detail(answer: Answer, endpoint: Endpoint) -> str | None:
    if not answer.body:
        return None
    return clean_detail(shown_body(answer.body, is_cut=answer.is_cut), endpoint.hidden) or None
