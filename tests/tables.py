"""A pytest plugin: `make test` plays some cases of each long table over the database, `make test-slow` the others.

The rule is one for all tables, so that the suite stays under two minutes while they grow: of a test with more than
KEPT cases that asks for the database, KEPT cases are played at once, spread evenly from the first to the last, and
the others get the marker `slow`. Who names files or tests gets every case of them.
"""

import gc
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

KEPT: Final = 3
TESTS: Final = Path(__file__).absolute().parent

# Collecting makes nothing but what stays: looking for garbage meanwhile takes a tenth of the time.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    # What was collected lives as long as the process: no later look for garbage goes through it again.
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark before the markers of the command line choose."""
    # Not by the source of the arguments: xdist hands them on to its workers as if they had been written.
    if {Path(each).absolute() for each in config.args} != {TESTS}:
        return
    for cases in tables(items):
        for case in left_for_later(cases):
            case.add_marker(pytest.mark.slow)


def tables(items: list[pytest.Item]) -> list[list[pytest.Item]]:
    """Return the cases of each test over the database in the order of their names: that of the items is random."""
    found: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and "database" in getattr(item, "fixturenames", ()):
            found[item.nodeid.partition("[")[0]].append(item)
    return [sorted(cases, key=lambda case: case.nodeid) for cases in found.values()]


def left_for_later[Case](cases: list[Case]) -> list[Case]:
    """Return all but KEPT of them, which are the first, the last, and those in even steps between."""
    last = len(cases) - 1
    kept = set(range(len(cases))) if last < KEPT else {each * last // (KEPT - 1) for each in range(KEPT)}
    return [case for place, case in enumerate(cases) if place not in kept]
