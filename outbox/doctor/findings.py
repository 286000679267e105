"""What a check of the doctor finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Finding", "Health", "problem", "sound", "warning"]


class Health(StrEnum):
    """How bad it is: `warning` will hurt, `problem` hurts now."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check: what was seen, and what to do about it when it is not ok."""

    check: str
    health: Health
    evidence: str
    remedy: str | None = None


def sound(check: str, evidence: str) -> Finding:
    """Return that all is well, and what shows it."""
    return Finding(check, Health.OK, evidence)


def warning(check: str, evidence: str, remedy: str) -> Finding:
    """Return what will hurt if nothing is done."""
    return Finding(check, Health.WARNING, evidence, remedy)


def problem(check: str, evidence: str, remedy: str) -> Finding:
    """Return what hurts now."""
    return Finding(check, Health.PROBLEM, evidence, remedy)
