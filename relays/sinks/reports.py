"""What the test of a destination found (`outbox destinations test NAME`), whatever its sink. No I/O here."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["ProbeReport", "ProbeStep"]


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """One step: what was tried, whether it went well, how long it took, what there is to say."""

    name: str
    is_ok: bool
    seconds: float
    detail: str


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """What a test found. `curl` sends the same request again, once the `curl_variables` are set."""

    destination: str
    host: str | None = None
    steps: tuple[ProbeStep, ...] = ()
    curl: str | None = None
    curl_variables: dict[str, str] = field(default_factory=dict)

    @property
    def is_ok(self) -> bool:
        """Whether every step went well."""
        return all(step.is_ok for step in self.steps)
