"""Upkeep of the tables: partitions ahead, retention behind, expiry (DESIGN: section 10).

Each step is one call of a function of the schema and one short transaction, so the whole can be interrupted at any
point and run again; two at once wait for each other. What is unfinished (open deliveries, dead letters) is never
removed. `_steps` decides, without I/O; `prune` and `aprune` carry out what it yields.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, LiteralString

import psycopg
from psycopg.errors import LockNotAvailable

from outbox.errors import InvalidSettings, UsageError

__all__ = ["DEFAULT_AHEAD_DAYS", "DEFAULT_KEEP", "Pruned", "aprune", "expired_partitions", "prune"]

DEFAULT_KEEP: Final = timedelta(days=30)
DEFAULT_AHEAD_DAYS: Final = 7
_SHORTEST_KEEP: Final = timedelta(days=1)
_LONGEST_KEEP: Final = timedelta(days=36500)
_TABLES: Final = ("events", "attempts")
_BATCH_ROWS: Final = 5000
_PAUSE_SECONDS: Final = 0.25  # recorders that queued behind a lock we did not get go first
_LONG_SECONDS: Final = 0.5  # a transaction that lasts so long will not end within the 150 ms that a lock is waited for


@dataclass(slots=True)
class Pruned:
    """What upkeep did.

    `kept_whole` are partitions with too much unfinished to rewrite; `busy` are steps that did not get their lock.
    """

    created: int = 0
    adopted: list[str] = field(default_factory=list)
    purged: list[str] = field(default_factory=list)
    folded: int = 0
    kept_whole: list[str] = field(default_factory=list)
    spared_rows: int = 0
    removed_rows: int = 0
    expired_keys: int = 0
    merged_counts: int = 0
    forgotten_relays: int = 0
    busy: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Call:
    """One statement; its first row's only column is what the step gets back."""

    sql: LiteralString
    parameters: Sequence[object] = ()


@dataclass(frozen=True, slots=True)
class _Pause:
    seconds: float


_HOLDERS: Final = """
    select array(
        select distinct l.virtualtransaction
        from pg_locks l
        where l.relation in (select t.relid from pg_partition_tree(%s::regclass) t)
          and l.database = (select d.oid from pg_database d where d.datname = current_database())
          and l.granted and l.pid is distinct from pg_backend_pid())
"""

_Steps = Generator[_Call | _Pause, Any, Any]


def prune(
    connection: psycopg.Connection[Any],
    keep: timedelta = DEFAULT_KEEP,
    *,
    ahead_days: int = DEFAULT_AHEAD_DAYS,
    tries: int = 20,
) -> Pruned:
    """Do all upkeep and return what was done.

    `connection` is in autocommit; finished events and attempts stay for `keep`, at least a day. A step that does not
    get its lock within 150 ms is tried `tries` times, then left for the next run and named in `Pruned.busy`.

    Raises:
        InvalidSettings: `keep` is shorter than a day.
    """
    steps = _checked_steps(connection.autocommit, keep, ahead_days, tries)
    step = next(steps)
    while True:
        try:
            try:
                answer = None
                if isinstance(step, _Pause):
                    time.sleep(step.seconds)
                else:
                    with psycopg.Cursor(connection) as cursor:
                        row = cursor.execute(step.sql, step.parameters).fetchone()
                        answer = row and row[0]
            except psycopg.Error as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
        except StopIteration as done:
            pruned: Pruned = done.value
            return pruned


async def aprune(
    connection: psycopg.AsyncConnection[Any],
    keep: timedelta = DEFAULT_KEEP,
    *,
    ahead_days: int = DEFAULT_AHEAD_DAYS,
    tries: int = 3,
) -> Pruned:
    """Do all upkeep and return what was done: `prune` for asyncio."""
    steps = _checked_steps(connection.autocommit, keep, ahead_days, tries)
    step = next(steps)
    while True:
        try:
            try:
                answer = None
                if isinstance(step, _Pause):
                    await asyncio.sleep(step.seconds)
                else:
                    async with psycopg.AsyncCursor(connection) as cursor:
                        row = await (await cursor.execute(step.sql, step.parameters)).fetchone()
                        answer = row and row[0]
            except psycopg.Error as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
        except StopIteration as done:
            pruned: Pruned = done.value
            return pruned


def expired_partitions(connection: psycopg.Connection[Any], keep: timedelta = DEFAULT_KEEP) -> list[str]:
    """Return the partitions whose finished rows `prune` would remove, oldest first."""
    _check_keep(keep)
    row = connection.execute(_EXPIRED.sql, [keep]).fetchone()
    names: list[str] = row[0] if row else []
    return names


_EXPIRED: Final = _Call(
    "select array(select name from outbox.partitions where upper_bound <= clock_timestamp() - %s::interval"
    " order by lower_bound, name)"
)


def _checked_steps(is_autocommit: bool, keep: timedelta, ahead_days: int, tries: int) -> _Steps:
    _check_keep(keep)
    if not is_autocommit:
        raise UsageError("upkeep is many short transactions; pass a connection in autocommit")
    return _steps(keep, ahead_days, tries)


def _check_keep(keep: timedelta) -> None:
    if not _SHORTEST_KEEP <= keep <= _LONGEST_KEEP:
        raise InvalidSettings(f"keep: {keep} is not a time from 1 day to 100 years; partitions are days")


def _steps(keep: timedelta, ahead_days: int, tries: int) -> _Steps:
    pruned = Pruned()
    for table in _TABLES:
        yield from _adopt_default(table, pruned, tries)
        call = _Call("select outbox.cover_now(%s)", [table])
        pruned.created += (yield from _try(call, f"cover now by {table}", pruned, tries, of=table)) or 0
    call = _Call("select outbox.create_partitions(%s)", [ahead_days])
    pruned.created += (yield from _try(call, "create partitions", pruned, tries)) or 0
    for name in (yield _Call(_EXPIRED.sql, [keep])):
        yield from _purge(name, keep, pruned, tries)
    for table in _TABLES:
        call = _Call("select outbox.fold_partitions(%s, %s)", [table, keep])
        pruned.folded += (yield from _try(call, f"fold {table}", pruned, tries, of=table)) or 0
        call = _Call("select outbox.purge_default(%s, %s, %s)", [table, keep, _BATCH_ROWS])
        pruned.removed_rows += yield from _in_batches(call)
    pruned.expired_keys = yield from _in_batches(_Call("select outbox.expire_idempotency_keys(%s)", [_BATCH_ROWS]))
    pruned.merged_counts = yield _Call("select outbox.compact_outcome_counts(%s)", [keep])
    pruned.forgotten_relays = yield _Call("select outbox.forget_relays(%s)", [keep])
    return pruned


def _try(call: _Call, name: str, pruned: Pruned, tries: int, *, of: str | None = None) -> _Steps:
    """Yield `call` until it gets its lock; answer None when it never does.

    `of` is the partitioned table that is locked as a whole: recorders wait behind that lock while it is waited for.
    So after the first refusal it is not asked for while somebody (a report, a dump, a vacuum) holds the table for
    long, but once more at last.
    """
    is_refused = False
    for left in reversed(range(tries)):
        if is_refused and left and of is not None and (yield from _is_held_for_long(of)):
            continue
        try:
            return (yield call)
        except LockNotAvailable:
            is_refused = True
            if left:
                yield _Pause(_PAUSE_SECONDS)
    pruned.busy.append(name)
    return None


def _is_held_for_long(table: str) -> _Steps:
    """Answer whether a transaction keeps a lock on a partition or the table itself for half a second."""
    holders = _Call(_HOLDERS, [f"outbox.{table}"])
    before = yield holders
    if not before:
        return False
    yield _Pause(_LONG_SECONDS)
    return not set(before).isdisjoint((yield holders))


def _in_batches(call: _Call) -> _Steps:
    total = 0
    while True:
        removed = yield call
        total += removed
        if removed < _BATCH_ROWS:
            return total


def _purge(name: str, keep: timedelta, pruned: Pruned, tries: int) -> _Steps:
    busy_before = len(pruned.busy)
    call = _Call("select outbox.purge_partition(%s, %s)", [name, keep])
    spared = yield from _try(call, f"purge {name}", pruned, tries)
    if len(pruned.busy) > busy_before:
        return
    if spared is None:
        pruned.kept_whole.append(name)
    else:
        pruned.purged.append(name)
        pruned.spared_rows += spared


def _adopt_default(table: str, pruned: Pruned, tries: int) -> _Steps:
    """Make a partition of the default one if it had to step in; see sql/migrations/0003_create_upkeep.sql."""
    release = _Call("select outbox.release_default(%s)", [table])
    adopt = _Call("select outbox.adopt_default(%s)", [table])
    yield from _try(release, f"release default of {table}", pruned, tries)  # left by an interrupted run
    adopted = yield from _try(adopt, f"adopt default of {table}", pruned, tries, of=table)
    constrain = _Call("select outbox.constrain_default(%s)", [table])
    if adopted is False and (yield from _try(constrain, f"constrain default of {table}", pruned, tries)):
        try:
            yield from _try(_Call("select outbox.validate_default(%s)", [table]), f"validate {table}", pruned, tries)
            adopted = yield from _try(adopt, f"adopt default of {table}", pruned, tries, of=table)
        finally:
            yield from _try(release, f"release default of {table}", pruned, tries)
    if adopted:
        pruned.adopted.append(table)
