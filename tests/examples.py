"""How many examples property tests try: a fixed set, so that no run fails by chance, unless more are asked for.

    OUTBOX_TEST_EXAMPLES=5000 pytest tests/unit tests/db/test_stateful_queue.py

tries so many random ones; what fails is printed with a line that repeats it.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

__all__ = ["EXAMPLES", "load_profile"]

EXAMPLES = int(os.environ.get("OUTBOX_TEST_EXAMPLES", "0"))  # noqa: TID251 - the tests' own setting
"""How many random examples are asked for; 0: the fixed ones."""


def load_profile() -> None:
    """Set hypothesis up. No deadline, no complaint about slow examples: the machine may be busy with other things."""
    settings.register_profile(
        "outbox",
        max_examples=EXAMPLES or 100,
        derandomize=not EXAMPLES,
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("outbox")
