"""`python -m tests.chaos --seed N --minutes M`: break things for as long as you like, and report."""

from __future__ import annotations

import argparse
import secrets
import sys

from tests.chaos.run import run


def main() -> int:
    """Run once per seed and return 1 when anything spoke against a promise."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, action="append", help="play this plan; may be repeated (default: any)")
    parser.add_argument("--minutes", type=float, default=10.0, help="of faults, for each seed")
    options = parser.parse_args()
    is_clean = True
    for seed in options.seed or [secrets.randbelow(10**6)]:
        print(f"seed {seed}: {options.minutes:g} minutes", file=sys.stderr, flush=True)  # noqa: T201 - a command
        report = run(seed, options.minutes * 60)
        print("\n".join(report.lines()), flush=True)  # noqa: T201 - a command
        is_clean = is_clean and not report.complaints
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
