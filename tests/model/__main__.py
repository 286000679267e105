"""Explore the models and print what was found, with the shortest trace of every variant.

python -m tests.model [--large] [--no-traces]
"""

from __future__ import annotations

import argparse
import sys
import time

from rich.console import Console
from rich.table import Table

from tests.model.catalogue import HOLDING, LARGE, VARIANTS
from tests.model.explorer import explore


def main() -> int:
    """Print a table of the protocols and one of the variants; return 1 if any result is not the expected one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true", help="the large bounds, too: several minutes and 4 GB")
    parser.add_argument("--no-traces", action="store_true", help="do not print how each variant fails")
    arguments = parser.parse_args()
    console = Console(width=140, highlight=False)
    table = Table("model", "states", "steps", "seconds", "found")
    traces = []
    is_expected = True
    for case in [*HOLDING, *(LARGE if arguments.large else []), *VARIANTS]:
        begun = time.monotonic()
        found = explore(case.model)
        seconds = time.monotonic() - begun
        is_expected &= case.fault in found.fault if case.fault and found.fault else case.fault == found.fault
        table.add_row(case.name, f"{found.states:,}", f"{found.steps:,}", f"{seconds:.1f}", found.fault or "holds")
        if found.fault:
            traces.append(f"\n{type(case.model).__name__}: {case.name}\n{found}")
    console.print(table)
    if not arguments.no_traces:
        console.print("\n".join(traces), markup=False)
    return 0 if is_expected else 1


if __name__ == "__main__":
    sys.exit(main())
