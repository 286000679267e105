"""Several relays under a supervisor: started, restarted, stopped at any moment."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.processes import relay_process
from tests.waiting import wait_until

PROCESSES = ("--processes", "2")


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_that_comes_while_the_relays_start_is_no_failure(database, number):
    with relay_process(database.dsn, *PROCESSES) as supervisor:
        supervisor.wait_for("supervising 2 relay processes")
        wait_until(lambda: len(children(supervisor.process.pid)) == 2, "both are started")
        supervisor.signal(number)
        assert supervisor.ended() == 0, supervisor.output
    assert "starting another" not in supervisor.output


def test_a_relay_that_dies_is_started_again_and_all_stop_together(database):
    with relay_process(database.dsn, *PROCESSES) as supervisor:
        supervisor.wait_for("relay 1 started")
        supervisor.wait_for("relay 2 started")
        first = children(supervisor.process.pid)
        os.kill(first[0], signal.SIGKILL)
        supervisor.wait_for("relay process ended with code -9, starting another")
        supervisor.wait_for("relay 3 started")
        assert len(set(children(supervisor.process.pid)) - set(first)) == 1
        assert supervisor.stop() == 0


def test_the_relays_of_a_supervisor_have_no_signal_blocked(database):
    with relay_process(database.dsn, *PROCESSES) as supervisor:
        supervisor.wait_for("relay 2 started")
        for pid in children(supervisor.process.pid):
            status = Path(f"/proc/{pid}/status").read_text()
            assert "SigBlk:\t0000000000000000" in status
        assert supervisor.stop() == 0
