"""The SQL that records drafts. All parameters and results are text, so that no driver's own codecs interfere."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from outbox.drafts import Draft

__all__ = ["Statement", "record_many", "record_one"]

_ONE: Final = """\
select outbox.record_event(
    {}::text, {}::text::jsonb, {}::text, {}::text, {}::text::jsonb, {}::text::timestamptz, {}::text)::text"""
_ONE_DELAYED: Final = """\
select outbox.record_event(
    {}::text, {}::text::jsonb, {}::text, {}::text, {}::text::jsonb,
    clock_timestamp() + make_interval(secs => {}::text::float8), {}::text)::text"""
_MANY: Final = "select id::text from outbox.record_events({}::text::jsonb) with ordinality as e (id, n) order by n"


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement that returns rows of one text column, with `{}` where a parameter goes."""

    template: str
    parameters: tuple[str | None, ...]

    @property
    def with_percents(self) -> str:
        """The SQL with `%s`, for psycopg, Django and most drivers of SQLAlchemy."""
        return self.template.replace("{}", "%s")

    @property
    def with_dollars(self) -> str:
        """The SQL with `$1`, `$2`, … for asyncpg."""
        return _numbered(self.template)


@cache
def _numbered(template: str) -> str:
    numbers = count(1)
    return re.sub(r"\{\}", lambda _: f"${next(numbers)}", template)


def record_one(draft: Draft) -> Statement:
    """Return the statement that records `draft` and returns its id."""
    delay = draft.delay_seconds
    return Statement(
        _ONE if delay is None else _ONE_DELAYED,
        (
            draft.type,
            draft.payload,
            draft.key,
            draft.idempotency_key,
            draft.headers,
            draft.due_at if delay is None else repr(delay),
            draft.destination,
        ),
    )


def record_many(drafts: Iterable[Draft]) -> Statement:
    """Return the one statement that records all `drafts` and returns their ids in the same order."""
    return Statement(_MANY, (f"[{', '.join(map(_entry, drafts))}]",))


def _entry(draft: Draft) -> str:
    fields = [f'"type": "{draft.type}", "payload": {draft.payload}']
    if draft.headers != "{}":
        fields.append(f'"headers": {draft.headers}')
    for name, value in (
        ("key", draft.key),
        ("idempotency_key", draft.idempotency_key),
        ("due_at", draft.due_at),
        ("delay_seconds", draft.delay_seconds),
        ("destination", draft.destination),
    ):
        if value is not None:
            fields.append(f'"{name}": {json.dumps(value)}')
    return f"{{{', '.join(fields)}}}"
