"""The hostile table: a quick choice of its rows in the suite, all of them with `make hostile`, and what is left behind
after many calls. Through the adapter; what the pipeline makes of it is in `test_statuses`.
"""

import asyncio
import time
from collections.abc import Iterator

import pytest

from mcpcatalog.sdk.connection import CLOSE_SECONDS
from mcpcatalog.sdk.http import ASIDE_SECONDS
from tests.hostile import kinds, piping
from tests.hostile.leftovers import left_behind
from tests.hostile.play import SLACK_SECONDS, Ending, arm, config_of, ending, play, play_one, pool
from tests.hostile.row import BRIEF, DONE, TIMEOUT, Row, Scripts
from tests.hostile.scripts import DROP, RESET, STALL, Act, Forever, Stage, acts, answer, result
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
    assert len(ROWS) + len(piping.ROWS) >= 400
    assert len([row for row in ROWS if row.reason != DONE]) >= 150
    assert {row.effect for row in ROWS} == {"not_applied", "unknown", "applied"}


@gate("mcp.hostile")
def test_every_kind_that_was_asked_for_is_in_the_table() -> None:
    every = (*ROWS, *piping.ROWS)
    assert kinds.missing(every) == []
    assert kinds.missing(row for row in every if "retry" not in row.name and row.name != "list-429-with-rpc") == [
        "retry: 0", "list-429-with-rpc",
    ]  # fmt: skip


def test_a_row_that_does_not_hold_is_told(hostile: Hostile) -> None:
    row = next(row for row in ROWS if row.name == "status-403")
    wrong = Row("wrong", "tool.timeout", "applied", row.scripts, sent=2, retry_after=1.0)
    (found,) = asyncio.run(play([wrong], hostile)).values()
    assert {fault.split()[0] for fault in found} == {"ended", "says", "was", "took", "asks"}


@gate("mcp.nothing_left")
def test_calls_that_go_wrong_leave_nothing_behind(hostile: Hostile) -> None:
    assert left_behind([row for row in QUICK if row.is_dispatched], QUICK_PIPES, hostile, calls=150) == []


@pytest.mark.long
def test_a_thousand_calls_over_all_rows_leave_nothing_behind(hostile: Hostile) -> None:
    assert left_behind([row for row in ROWS if "full" not in row.dial], piping.ROWS, hostile, calls=1_000) == []


@gate("mcp.hostile")
def test_who_takes_no_cancellation_holds_up_no_later_call(hostile: Hostile) -> None:
    """The SDK posts it in line: without a bound of its own the next call would wait behind it for all of its time."""
    scripts: Scripts = {Stage.CALL: [acts(STALL), answer(result())], Stage.CANCELLED: acts(STALL)}
    row = Row("cancellation-in-the-way", TIMEOUT, "unknown", scripts, "legacy", seconds=BRIEF)
    arm([row], hostile)

    async def go() -> tuple[list[str], Ending, int]:
        connections = pool()
        try:
            config = config_of(row, hostile)
            wrong = await play_one(row, hostile, connections)
            later = await ending(connections, config, f"s:{row.name}", 30.0)
            return wrong, later, hostile.calls(row.name, Stage.INITIALIZE)
        finally:
            await connections.close_all(drain_seconds=0.2)

    wrong, later, opened = asyncio.run(go())
    assert (wrong, later.reason, later.effect, opened) == ([], DONE, "applied", 1)
    assert later.seconds < ASIDE_SECONDS + SLACK_SECONDS
    assert hostile.calls(row.name, Stage.CANCELLED) == 1


# At the end of a connection, when nobody waits for anything any more.
FAREWELLS: dict[str, Act] = {
    "is-never-taken": STALL,
    "is-dropped": DROP,
    "is-reset": RESET,
    "drips": Forever(b"x", 0.05),
}


@gate("mcp.hostile")
@pytest.mark.parametrize("name", FAREWELLS)
def test_a_farewell_that_nobody_takes_is_given_up(hostile: Hostile, name: str) -> None:
    row = Row(f"farewell-{name}", DONE, "applied", {Stage.FAREWELL: acts(FAREWELLS[name])}, "legacy", holds=("fine",))
    arm([row], hostile)

    async def go() -> tuple[list[str], float, set[str]]:
        connections = pool()
        found = await play_one(row, hostile, connections)
        begun = time.monotonic()
        await connections.close_all(drain_seconds=0.2)
        names = {task.get_name() for task in asyncio.all_tasks()}
        return found, time.monotonic() - begun, {each for each in names if each.startswith("mcp")}

    found, seconds, left = asyncio.run(go())
    assert (found, left) == ([], set())
    assert hostile.calls(row.name, Stage.FAREWELL) == 1
    assert seconds < CLOSE_SECONDS + SLACK_SECONDS
