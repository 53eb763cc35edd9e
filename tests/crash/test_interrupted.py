"""A matrix that is told to stop ends at once, with everybody it began, and keeps nothing of the cells in hand."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.integration.processes import eventually, running
from tests.servers import WORKER

pytestmark = pytest.mark.slow

# Two lanes whose worker stands at a gate that nobody opens, over the servers of this suite.
PLAY = """
import os, sys, time
from pathlib import Path
from tests.crash import matrix
from tests.crash.cell import Cell, Crash, Play
from tests.crash.expected import Class, Kill
from tests.crash.stack import Timing, lanes
from tests.integration.processes import be_interrupted

folder, template, prefix = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
be_interrupted()
Play._propose = lambda self: None  # nobody will come to the gate
cells = [Cell(kind, (Crash("after_claim", Kill.GROUP),)) for kind in (Class.ONCE, Class.READ)]
memory = matrix.Memory(folder / "cells.jsonl", "abc", 1, fresh=True)
played = matrix.Matrix(cells, memory, time.monotonic() + 600)
with lanes(folder, template, 2, dict(os.environ), Timing(1.0, 0.5), prefix=prefix) as opened:
    played.run(opened)
print("left", played.left(), flush=True)
"""


def mine(folder: Path) -> list[int]:
    """Return the processes that were told of this folder, by argument or environment or working with its log."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            links = [os.readlink(each) for each in (process / "fd").iterdir()]  # noqa: PTH115 - only looked at
            told = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in told or any(link.startswith(str(folder)) for link in links):
            found.append(int(process.name))
    return found


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=lambda how: how.name)
def test_a_matrix_that_is_told_to_stop_ends_at_once_with_all_its_processes(
    tmp_path: Path, database: None, how: signal.Signals
) -> None:
    lanes = tmp_path / "lanes"
    lanes.mkdir()
    command = [sys.executable, "-c", PLAY, str(lanes), os.environ["TEST_TEMPLATE"], f"toolsys_stop_{WORKER}"]
    with running(command, tmp_path) as matrix:
        gates = [lanes / f"toolsys_stop_{WORKER}_{number}" / "gates" / "worker" / "after_claim" for number in (0, 1)]
        eventually(
            lambda: all(gate.exists() for gate in gates) or matrix.process.poll() is not None, "two cells in hand", 180
        )
        assert matrix.process.poll() is None, matrix.text()
        assert len(mine(lanes)) >= 6, "the matrix, its nursery and world, and a worker and a scheduler each"
        begun = time.monotonic()
        assert matrix.end(how) == 0, matrix.text()
        assert time.monotonic() - begun < 5
        assert matrix.text().splitlines() == ["stopped: the cells in hand will be played again", "left 2"]
    eventually(lambda: mine(lanes) == [], "the end of everybody")
