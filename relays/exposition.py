"""Counters, gauges and histograms in Prometheus' text format 0.0.4. No dependency, no I/O."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["CONTENT_TYPE", "Family", "Histogram", "histogram_family", "render"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Family:
    """One metric: its name, type (`counter`, `gauge`, `histogram`), help, and samples (suffix, labels, value)."""

    name: str
    kind: str
    help: str
    samples: list[tuple[str, Labels, float]] = field(default_factory=list)

    def add(self, value: float, suffix: str = "", **labels: str) -> None:
        """Add one sample."""
        self.samples.append((suffix, tuple(labels.items()), value))


class Histogram:
    """Counts observations per bucket; `bounds` are the upper ends, ascending, in the unit of the metric."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


def histogram_family(name: str, text: str, histograms: Mapping[Labels, Histogram]) -> Family:
    """Return the family of histograms that differ in their labels."""
    family = Family(name, "histogram", text)
    for labels, histogram in histograms.items():
        counts = list(accumulate(histogram.counts))
        bounds = [*map(_number, histogram.bounds), "+Inf"]
        for bound, count in zip(bounds, counts, strict=True):
            family.samples.append(("_bucket", (*labels, ("le", bound)), count))
        family.samples.append(("_sum", labels, histogram.total))
        family.samples.append(("_count", labels, counts[-1]))
    return family


def render(families: Iterable[Family]) -> str:
    """Return the page that Prometheus reads."""
    return "".join(f"{line}\n" for family in families for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    yield f"# HELP {family.name} {_escaped(family.help)}"
    yield f"# TYPE {family.name} {family.kind}"
    for suffix, labels, value in family.samples:
        pairs = ",".join(f'{name}="{_quoted(text)}"' for name, text in labels)
        yield f"{family.name}{suffix}{f'{{{pairs}}}' if pairs else ''} {_number(value)}"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')
