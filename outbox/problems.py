"""Finds what an operator should hear of in an overview. Pure, no I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outbox.durations import format_duration
from outbox.migrate import required_version

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

__all__ = ["OLDEST_WAITING_SECONDS", "find_problems"]

OLDEST_WAITING_SECONDS = 60.0
"""A delivery that is due for longer than this is a problem."""


def find_problems(
    overview: Mapping[str, Any], *, lapsed: int, serves: Collection[str], dangers: Mapping[str, Any]
) -> list[dict[str, str]]:
    """Return the problems of an overview, worst first, each with a code, a message and a remedy.

    `lapsed` counts leases past their end, `serves` names the destinations a running relay serves, `dangers` is the
    row of read_dangers.
    """
    problems = [
        *_database(overview, dangers),
        *_relays(overview, lapsed),
        *(problem for found in overview["destinations"] for problem in _destination(found, serves)),
    ]
    return [{"code": code, "message": message, "remedy": remedy} for code, message, remedy in problems]


Problem = tuple[str, str, str]


def _database(overview: Mapping[str, Any], dangers: Mapping[str, Any]) -> Iterator[Problem]:
    version, required = overview["database"]["schema_version"], required_version()
    if version != required:
        remedy = "run `outbox migrate`" if version < required else "upgrade outbox-relay here"
        yield "schema_mismatch", f"the schema is at version {version}, this command knows {required}", remedy
    if dangers["is_copy"]:
        message = "this database is a copy of another one (restored, or cloned); relays refuse to send from it"
        yield "restored_copy", message, "if it is meant to send, run `outbox adopt`"
    if dangers["pid"] is not None:
        age = format_duration(dangers["age_seconds"])
        name = dangers["application_name"] or "unnamed"
        message = f"session {dangers['pid']} ({name}) holds a transaction open for {age}: nothing can be vacuumed"
        yield "pinned_horizon", message, f"end it: select pg_terminate_backend({dangers['pid']})"


def _relays(overview: Mapping[str, Any], lapsed: int) -> Iterator[Problem]:
    relays = overview["relays"]
    running = [relay for relay in relays if relay["state"] == "running"]
    totals = overview["totals"]
    has_work = any(totals[name] for name in ("waiting", "scheduled", "leased", "blocked"))
    if not running and has_work:
        yield "no_relay", "no relay is alive and deliveries are open", "start outbox-relay"
    for relay in relays:
        if relay["state"] == "lost":
            age = format_duration(relay["heartbeat_age_seconds"])
            message = f"relay {relay['id']} ({relay['name']}) is silent for {age} and did not say that it stopped"
            yield "lost_relay", message, "look at its log; what it held is recovered when its leases lapse"
    if running and all(relay["doorbell"] == "polling" for relay in running):
        message = "no relay has a doorbell: commits are found by polling"
        yield "doorbell_degraded", message, "give relays a direct DSN with --listen-dsn; see `outbox doctor`"
    if lapsed:
        message = f"{lapsed} leases have lapsed, to be recovered: the relay that held them died or stalled"
        yield "lapsed_leases", message, "a running relay recovers them within seconds; if none is alive, start one"


def _destination(found: Mapping[str, Any], serves: Collection[str]) -> Iterator[Problem]:
    name, state = found["name"], found["state"]
    open_count = sum(found[counted] for counted in ("waiting", "scheduled", "leased", "blocked"))
    if state in {"disabled", "tripped", "paused", "removed"} and (found["held"] or state in {"disabled", "tripped"}):
        because = f" because {found['reason']}" if found["reason"] else ""
        message = f"destination {name} is {state} since {found['since']}{because}; {found['held']} deliveries are held"
        yield f"destination_{state}", message, _state_remedy(state, name)
    elif open_count and serves and name not in serves:
        message = f"no running relay serves destination {name}: {open_count} deliveries are open"
        yield "not_served", message, "look at the relays' --only, their sinks, and the handlers of their --app"
    if (age := found["oldest_waiting_seconds"]) is not None and age > OLDEST_WAITING_SECONDS:
        message = f"destination {name} has a delivery due for {format_duration(age)}"
        yield "oldest_due", message, "run more relays, raise max_in_flight, or look at the destination's answers"
    if found["dead"]:
        message = f"destination {name} has {found['dead']} dead letters"
        yield "dead_letters", message, f"outbox dead list --destination {name}; then redrive or discard them"


def _state_remedy(state: str, name: str) -> str:
    if state == "removed":
        return f"outbox dead discard --destination {name}, or add the destination again"
    return f"outbox destinations resume {name}"
