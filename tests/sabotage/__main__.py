"""`make sabotage`: sees every named test pass, then plants the defects one by one and sees each turn its tests red.

Two lanes work side by side, each with its own copy and servers. `ARGUMENTS="--only drain,epoch"` plants some only.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from tests.crash import others
from tests.sabotage import DEFECTS
from tests.sabotage.defect import Defect
from tests.sabotage.runs import PASSED, RED, Lane, Report

WHOLE_SECONDS: Final = 3_600.0
Row = tuple[bool, str]


def plant(defect: Defect, lanes: "SimpleQueue[Lane]") -> Row:
    """Return whether the defect was caught, and its line of the table."""
    begun, lane = time.monotonic(), lanes.get()
    try:
        report = lane.run_with(defect)
        is_caught = report.all(RED)
        said = f"{len(defect.tests)} red" if is_caught else _told(report, RED)
    except LookupError as moved:
        is_caught, said = False, f"does not apply: {moved}"
    except subprocess.TimeoutExpired:
        is_caught, said = False, "its tests did not end"
    finally:
        lanes.put(lane)
    seconds = time.monotonic() - begun
    return is_caught, f"{'ok  ' if is_caught else 'FAIL'} {defect.name:36} {defect.says:66} {seconds:4.0f} s  {said}"


def _told(report: Report, wanted: str) -> str:
    other = "".join(f"\n       {state}: {test}" for test, state in report.found.items() if state != wanted)
    return f"{other}\n{report.tail}"


def sees_all_pass(defects: Sequence[Defect], lanes: Sequence[Lane]) -> bool:
    """Run every named test without a defect, each lane a share of them."""
    tests = sorted({test for defect in defects for test in defect.tests})
    shares = [tests[number :: len(lanes)] for number in range(len(lanes))]
    # Each of them once: what all defects together name takes many times what one does.
    with ThreadPoolExecutor(len(lanes)) as pool:
        reports = list(pool.map(_run_whole, lanes, shares))
    others = [test for report in reports for test, state in report.found.items() if state != PASSED]
    # Tests of real servers may run out of time on a busy machine: what does not hold fails alone, too.
    if others and not (report := _run_whole(lanes[0], others)).all(PASSED):
        print(f"FAIL without any defect: {_told(report, PASSED)}")
        return False
    print(f"     {len(tests)} tests pass without a defect", flush=True)
    return True


def _run_whole(lane: Lane, tests: Sequence[str]) -> Report:
    return lane.run(tests, seconds=WHOLE_SECONDS) if tests else Report({}, "")


def main() -> int:
    arguments = argparse.ArgumentParser(prog="make sabotage")
    arguments.add_argument("--only", default="", help="plant the defects whose names hold one of these, by comma")
    arguments.add_argument("--lanes", type=int, default=2)
    asked = arguments.parse_args()
    defects = [each for each in DEFECTS if any(word in each.name for word in asked.only.split(","))]
    with tempfile.TemporaryDirectory(prefix="sabotage-") as folder:
        lanes: SimpleQueue[Lane] = SimpleQueue()
        made = [Lane(Path(folder) / f"{number}") for number in range(asked.lanes)]
        if not sees_all_pass(defects, made):
            return 1
        for lane in made:
            lanes.put(lane)
        with ThreadPoolExecutor(asked.lanes) as pool:
            caught = 0
            for number, (is_caught, line) in enumerate(pool.map(lambda each: plant(each, lanes), defects), 1):
                caught += is_caught
                print(f"{number:3}/{len(defects)} {line}", flush=True)
    if not asked.only:
        what = f"{len(defects)} planted defects, each seen by the tests that it names"
        others.keep("sabotage", passed=caught, failed=len(defects) - caught, what=what)
    print(f"{caught} passed, {len(defects) - caught} failed")
    return 0 if caught == len(defects) else 1


if __name__ == "__main__":
    sys.exit(main())
