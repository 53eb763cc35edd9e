"""The hostile table: a quick choice of its rows in the suite, all of them with `make hostile`, and what is left behind
after many calls. Through the adapter; what the pipeline makes of it is in `test_statuses`.
"""

import asyncio
import gc
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.hostile import piping
from tests.hostile.play import arm, play, play_one, pool
from tests.hostile.row import BRIEF, DONE, Row
from tests.hostile.server import Hostile, serving
from tests.hostile.table import ROWS
from tests.spec.requirements import gate

pytestmark = pytest.mark.slow

# They use up a deadline of seconds, or megabytes.
SLOW = ("stalls", "drips", "mute", "banner", "protocol", "accepts", "never", "huge", "flood", "endless", "bomb", "end")
QUICK = [row for row in ROWS if row.seconds != BRIEF and not any(word in row.name for word in SLOW)]
QUICK_PIPES = [row for row in piping.ROWS if row.name in {"is-well", "crashes", "error", "noise", "lone-surrogate"}]


@pytest.fixture(scope="module")
def hostile() -> Iterator[Hostile]:
    with serving() as found:
        yield found


def faults(found: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: wrong for name, wrong in found.items() if wrong}


@gate("mcp.hostile")
@pytest.mark.parametrize("part", range(4))
def test_each_misbehaviour_has_its_outcome(hostile: Hostile, part: int) -> None:
    assert faults(asyncio.run(play(QUICK[part::4], hostile))) == {}


@gate("mcp.hostile")
def test_each_misbehaviour_of_a_child_has_its_outcome() -> None:
    assert faults(asyncio.run(play(QUICK_PIPES, None))) == {}


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
def test_every_row_has_its_outcome(hostile: Hostile, part: int) -> None:
    assert faults(asyncio.run(play(ROWS[part::8], hostile))) == {}


@pytest.mark.long
def test_every_row_of_the_pipe_has_its_outcome() -> None:
    assert faults(asyncio.run(play(piping.ROWS, None))) == {}


def test_the_table_is_long_and_its_names_are_unique() -> None:
    for table in (ROWS, piping.ROWS):
        assert len({row.name for row in table}) == len(table)
    assert len(ROWS) + len(piping.ROWS) >= 280
    assert len([row for row in ROWS if row.reason != DONE]) >= 150
    assert {row.effect for row in ROWS} == {"not_applied", "unknown", "applied"}


def test_a_row_that_does_not_hold_is_told(hostile: Hostile) -> None:
    row = next(row for row in ROWS if row.name == "status-403")
    wrong = Row("wrong", "tool.timeout", "applied", row.scripts, sent=2, retry_after=1.0)
    (found,) = asyncio.run(play([wrong], hostile)).values()
    assert {fault.split()[0] for fault in found} == {"ended", "says", "was", "took", "asks"}


@gate("mcp.nothing_left")
def test_calls_that_go_wrong_leave_nothing_behind(hostile: Hostile) -> None:
    assert left_behind([row for row in QUICK if row.is_dispatched], hostile, calls=150) == []


@pytest.mark.long
def test_a_thousand_calls_over_all_rows_leave_nothing_behind(hostile: Hostile) -> None:
    assert left_behind([row for row in ROWS if "full" not in row.dial], hostile, calls=1_000) == []


def left_behind(rows: Sequence[Row], hostile: Hostile, *, calls: int) -> list[str]:
    """Make calls over the rows, each on a connection of its own, and a few over pipes; compare with what was there."""
    arm(rows, hostile)
    before: dict[str, int] = {}

    async def go() -> list[str]:
        # One thread for what blocks, so that their number is not a matter of luck.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        connections, gate_ = pool(), asyncio.Semaphore(24)

        async def one(number: int) -> None:
            async with gate_:
                await play_one(rows[number % len(rows)], hostile, connections, session=f"s{number}")
                await connections.close_session(f"s{number}:{rows[number % len(rows)].name}")

        await one(0)
        await play_one(QUICK_PIPES[0], None, connections)
        await connections.close_session(f"s:{QUICK_PIPES[0].name}")
        before.update(await settled({}))
        await asyncio.gather(*map(one, range(calls)))
        for row in QUICK_PIPES:
            await play_one(row, None, connections)
            await connections.close_session(f"s:{row.name}")
        after = await settled(before)
        await connections.close_all()
        return [
            f"{what}: {before[what]} before, {count} after" for what, count in after.items() if count > before[what]
        ]

    return asyncio.run(go())


async def settled(wanted: dict[str, int]) -> dict[str, int]:
    """Count again and again, for some seconds at most, until it is what was there before."""
    deadline = time.monotonic() + 20
    while True:
        await asyncio.sleep(0.2)
        gc.collect()
        found = {**held(), "tasks": len(asyncio.all_tasks())}
        if not wanted and time.monotonic() > deadline - 18:
            return found
        if time.monotonic() > deadline or (wanted and all(found[key] <= wanted[key] for key in wanted)):
            return found


def held() -> dict[str, int]:
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    return {"descriptors": descriptors, "threads": threading.active_count(), "children": len(children())}


def children() -> list[int]:
    """Every process of ours, zombies included."""
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found
