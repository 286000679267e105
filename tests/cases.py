"""Which field case is covered by which tests: `python -m tests.cases` writes tests/README.md.

A case is a public failure of a system like this one, turned into a test; the tests are named after it.
"""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
CASES = {
    "T01": "a lower id that commits later is not skipped",
    "T02": "rollback and savepoints",
    "T03": "a duplicate idempotency key does not poison the transaction",
    "T04": "the same key with other content is refused, without showing it",
    "T08": "NUL characters",
    "T09": "NaN, infinity and types JSON does not have",
    "T11": "numbers arrive as they were recorded",
    "T12": "the wake-up does not serialise commits",
    "T14": "the helper never owns the caller's transaction",
    "T15": "time zones",
    "C01": "kill -9 in the middle of a delivery",
    "C02": "SIGTERM during delivery",
    "C03": "a stalled relay that lost its lease",
    "C05": "an event that kills its relay",
    "C07": "no deadlocks",
    "C10": "PgBouncer in transaction mode",
    "C11": "a LISTEN connection that dies without a word",
    "C12": "the database restarts, kills sessions, stays away",
    "C14": "clocks that differ or jump",
    "C17": "a slow destination does not hold up the others",
    "C18": "order within a key while an earlier event waits",
    "C19": "no transaction is open while talking to the outside",
    "R01": "backoff at large attempt numbers",
    "R02": "spread after an outage",
    "R04": "a receiver down for longer than the retry budget",
    "R05": "redrive keeps history and survives interruption",
    "R07": "several destinations, one fails",
    "R08": "retries happen, and end",
    "W01": "the bytes that are signed are sent, on every attempt",
    "W03": "redirects never count as delivered",
    "W04": "requests to internal addresses",
    "W06": "endless and exploding responses",
    "W08": "odd header values",
    "W09": "which answers mean what",
    "W12": "secrets in errors and history",
    "W13": "paused and removed destinations keep their queue",
    "E01": "permanent and temporary SMTP replies",
    "E02": "a reused SMTP connection gone stale",
    "E05": "header injection in mail",
    "E06": "non-ASCII addresses",
    "E07": "long subjects and lines",
    "X02": "a producer can only produce",
    "O01": "several migrate at once",
    "O04": "retention removes only what is finished",
    "O05": "a large backlog",
    "O09": "a silent standstill is visible",
}
_TEST = re.compile(r"def (test_([a-z][0-9]{2})_\w+)")


def covered() -> dict[str, list[tuple[str, str]]]:
    """Return (file, test) by case, as the tests' names say."""
    found: dict[str, list[tuple[str, str]]] = {case: [] for case in CASES}
    for path in sorted(TESTS.rglob("test_*.py")):
        for name, case in _TEST.findall(path.read_text()):
            found.setdefault(case.upper(), []).append((str(path.relative_to(TESTS)), name))
    return found


def table() -> str:
    """Return tests/README.md."""
    lines = [
        "# Tests",
        "",
        "`make test` runs all but chaos against a real PostgreSQL, with real relay processes and real HTTP and SMTP",
        "servers on loopback. unit: no I/O · db: real PostgreSQL · relay: relays and sinks · e2e: the commands ·",
        "chaos: kill -9, restarts · benchmarks: figures, no verdicts.",
        "",
        "## Field cases",
        "",
        "Each case is a public failure of a system like this one. `python -m tests.cases` writes this table.",
        "",
        "| case | | tests |",
        "|---|---|---|",
    ]
    for case, tests in sorted(covered().items()):
        files = sorted({file for file, _ in tests})
        names = ", ".join(f"[{file}]({file})" for file in files)
        lines.append(f"| {case} | {CASES.get(case, '')} | {names} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    (TESTS / "README.md").write_text(table())
