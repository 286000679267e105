"""Finds what an operator should hear of in an overview. Pure, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from outbox.durations import format_duration
from outbox.migrate import required_version
from outbox.pins import pinned, unpinning

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["OLDEST_WAITING_SECONDS", "PIN_SECONDS", "PIN_XIDS", "Dangers", "find_problems"]

OLDEST_WAITING_SECONDS = 60.0
"""A delivery that is due for longer than this is a problem."""

DYING_RELAYS = 3
"""One that dies and is restarted is a matter of the next morning; so many within an hour are not."""

PIN_SECONDS, PIN_XIDS = 600.0, 10_000_000
"""What keeps dead rows from being removed for longer, or for more transactions, is a problem."""


@dataclass(frozen=True, slots=True)
class Dangers:
    """What an overview does not show: lapsed leases, whether this is a copy, who pins the xmin horizon; the limit."""

    lapsed: int = 0
    copy: str | None = None
    pins: Sequence[Any] = ()
    max_due_seconds: float = OLDEST_WAITING_SECONDS


def find_problems(overview: Mapping[str, Any], dangers: Dangers) -> list[dict[str, str]]:
    """Return the problems of an overview, worst first, each with a code, a message and a remedy."""
    problems = [
        *_database(overview, dangers),
        *_relays(overview, dangers),
        *_destinations(overview, dangers),
    ]
    return [{"code": code, "message": message, "remedy": remedy} for code, message, remedy in problems]


Problem = tuple[str, str, str]


def _database(overview: Mapping[str, Any], dangers: Dangers) -> Iterator[Problem]:
    version, required = overview["database"]["schema_version"], required_version()
    if version != required:
        remedy = "run `outbox migrate`" if version < required else "upgrade outbox-relay here"
        yield "schema_mismatch", f"the schema is at version {version}, this command knows {required}", remedy
    if dangers.copy is not None:
        message = f"this database is a copy ({dangers.copy}); relays refuse to send from it"
        yield "restored_copy", message, "if it is meant to send, run `outbox adopt`"
    for pin in dangers.pins:
        yield "pinned_horizon", pinned(pin), unpinning(pin)


def _relays(overview: Mapping[str, Any], dangers: Dangers) -> Iterator[Problem]:
    relays = overview["relays"]
    running = [relay for relay in relays if relay["state"] == "running"]
    totals = overview["totals"]
    has_work = any(totals[name] for name in ("waiting", "scheduled", "leased", "blocked"))
    if not running and has_work:
        yield "no_relay", "no relay is alive and deliveries are open", "start outbox-relay"
    yield from _lost(relays)
    for relay in running:
        if relay["failing"] is not None:
            message = f"relay {relay['id']} ({relay['name']}) is alive and does not work: {relay['failing']}"
            yield (
                "relay_failing",
                message,
                "its log has the database's own words; rights and schema: see `outbox doctor`",
            )
    if running and all(relay["doorbell"] == "polling" for relay in running):
        message = "no relay has a doorbell: commits are found by polling"
        yield "doorbell_degraded", message, "give relays a direct DSN with --listen-dsn; see `outbox doctor`"
    if dangers.lapsed:
        message = f"lapsed leases, to be recovered: {dangers.lapsed}; the relay that held them died or stalled"
        yield "lapsed_leases", message, "a running relay recovers them within seconds; if none is alive, start one"


def _lost(relays: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    """Yield relays that went silent and have no successor; and that they do so time and again."""
    lost = [relay for relay in relays if relay["state"] == "lost"]
    for relay in lost:
        if not relay["is_replaced"]:
            age = format_duration(relay["heartbeat_age_seconds"])
            message = f"relay {relay['id']} ({relay['name']}) is silent for {age} and did not say that it stopped"
            yield "lost_relay", message, "look at its log; what it held is recovered when its leases lapse"
    replaced = sum(relay["is_replaced"] for relay in lost)
    if replaced >= DYING_RELAYS:
        message = f"relays that went silent within the last hour, others having taken their place: {replaced}"
        yield "lost_relay", message, "look at their logs and exit codes: something kills them, such as a memory limit"


def _destinations(overview: Mapping[str, Any], dangers: Dangers) -> Iterator[Problem]:
    running = [relay for relay in overview["relays"] if relay["state"] == "running"]
    served = {name for relay in running for name in relay["serves"].get("destinations") or ()}
    for found in overview["destinations"]:
        is_unserved = bool(running) and found["name"] not in served
        yield from _destination(found, is_unserved=is_unserved, max_due_seconds=dangers.max_due_seconds)


def _destination(found: Mapping[str, Any], *, is_unserved: bool, max_due_seconds: float) -> Iterator[Problem]:
    name, state = found["name"], found["state"]
    open_count = sum(found[counted] for counted in ("waiting", "scheduled", "leased", "blocked"))
    if state in {"disabled", "tripped", "paused", "removed"} and (found["held"] or state in {"disabled", "tripped"}):
        because = f" because {found['reason']}" if found["reason"] and state != "removed" else ""
        message = f"destination {name} is {state} since {found['since']}{because}; deliveries held: {found['held']}"
        yield f"destination_{state}", message, _state_remedy(state, name)
    elif open_count and is_unserved:
        message = f"no running relay serves destination {name}; open deliveries: {open_count}"
        yield "not_served", message, "look at the relays' --only, their sinks, and the handlers of their --app"
    if (age := found["oldest_waiting_seconds"]) is not None and age > max_due_seconds:
        message = f"destination {name} has a delivery due for {format_duration(age)}"
        yield "oldest_due", message, "run more relays, raise max_in_flight, or look at the destination's answers"
    if found["dead"]:
        message = f"dead letters of destination {name}: {found['dead']}"
        yield "dead_letters", message, f"outbox dead list --destination {name}; then redrive or discard them"


def _state_remedy(state: str, name: str) -> str:
    if state == "removed":
        return f"outbox dead discard --destination {name} --removed, or take it back: outbox destinations resume {name}"
    return f"outbox destinations resume {name}"
