"""Cells of the crash matrix: four with every run of the suite, four in `make test-slow`, all in `make crash`."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.crash.cell import Cell, Crash, Play, Result
from tests.crash.expected import Class, Kill
from tests.crash.matrix import TRIES
from tests.crash.stack import Timing, lanes
from tests.servers import WORKER
from tests.spec.requirements import gate

TIMING = Timing(lease_seconds=1.0, sweep_seconds=0.3)
LANES = 4
CELLS = (
    Cell(Class.ONCE, (Crash("before_watermark", Kill.GROUP),)),
    Cell(Class.ONCE, (Crash("after_watermark", Kill.PROCESS),)),
    Cell(Class.ONCE, (Crash("before_result", Kill.GROUP),)),
    Cell(Class.READ, (Crash("stopped_after_effect", Kill.PROCESS),)),
    Cell(Class.IDEMPOTENT, (Crash("after_approved_intent", Kill.GROUP),)),
    Cell(Class.CONDITIONAL, (Crash("late_connect", Kill.PROCESS),)),
    Cell(Class.IDEMPOTENT, (Crash("during_sweep", Kill.PROCESS),)),
    Cell(Class.ONCE, (Crash("after_result", Kill.GROUP),)),
)


@gate("gate.7")
@gate("recovery.bound")
@pytest.mark.parametrize("cells", [CELLS[:4], pytest.param(CELLS[4:], marks=pytest.mark.slow)], ids=["few", "more"])
def test_a_killed_process_leaves_what_the_table_says(tmp_path: Path, cells: tuple[Cell, ...]) -> None:
    environment = dict(os.environ)
    prefix = f"toolsys_crash_{WORKER}"
    template = environment["TEST_TEMPLATE"]
    with (
        lanes(tmp_path, template, LANES, environment, TIMING, prefix=prefix) as opened,
        ThreadPoolExecutor(LANES) as pool,
    ):
        free, lock = list(opened), threading.Lock()

        def play(cell: Cell) -> Result:
            with lock:
                lane = free.pop()
            try:
                result, left = Play(cell, lane).run(), TRIES - 1
                # A suite that shares two cores may starve a worker for longer than its lease: play it once more.
                while result.is_disturbed and left:
                    result, left = Play(cell, lane).run(), left - 1
                return result
            finally:
                with lock:
                    free.append(lane)

        results = list(pool.map(play, cells))
    assert {result.cell: result.faults for result in results} == {cell.name: [] for cell in cells}
