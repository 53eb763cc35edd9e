"""Fourteen rows whatever was recorded; waiting is apart from work and cannot hide it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from toolsys import timeline

START = datetime(2026, 1, 1, tzinfo=UTC)


def entry(step: int, milliseconds: float, microseconds: int = 1_000) -> dict[str, Any]:
    return {"step": step, "at_ms": START.timestamp() * 1000 + milliseconds, "us": microseconds}


def at(milliseconds: float) -> datetime:
    return START + timedelta(milliseconds=milliseconds)


def test_a_row_without_a_trace_has_fourteen_empty_steps() -> None:
    found = timeline.build([], {8: ("intent", None)})
    assert [step.number for step in found.steps] == list(range(1, 15))
    assert [step.number for step in found.steps if step.bars] == []
    assert (found.waits, found.work, found.waiting) == ((), 0, 0)


def test_a_call_that_was_handed_off_waits_from_its_commit_to_its_worker() -> None:
    trace = [entry(1, 0), entry(7, 2), entry(1, 10), entry(10, 12), entry(11, 15)]
    commits = {8: ("intent", at(5)), 9: ("claim", at(11)), 13: ("result", at(18))}
    found = timeline.build(trace, commits)
    labels = {bar.label for step in found.steps for bar in step.bars}
    assert labels == {"web, pass 1", "worker, pass 2", "intent", "claim", "result"}
    ((label, since, milliseconds),) = [(wait.label, wait.at, wait.milliseconds) for wait in found.waits]
    assert (label, since, milliseconds) == ("waiting for a worker", at(5), 5)
    assert (found.work, found.waiting) == (13, 5)
    assert [step.number for step in found.steps if step.has_committed] == [8, 9, 13]


def test_a_day_of_waiting_leaves_work_visible() -> None:
    day = 24 * 3600 * 1000.0
    trace = [entry(1, 0, 10_000), entry(1, day, 10_000), entry(10, day + 10, 10_000)]
    held = timeline.build(trace, {7: ("held", at(11)), 13: ("result", at(day + 20))}, at(day - 1_000))
    assert [wait.label for wait in held.waits] == ["waiting for a person", "waiting for a worker"]
    assert all(wait.width == timeline.WAIT_WIDTH for wait in held.waits)
    widths = [bar.width for step in held.steps for bar in step.bars if bar.milliseconds is not None]
    assert len(widths) == 3
    assert min(widths) > 80
    bars = [bar for step in held.steps for bar in step.bars]
    assert all(0 <= bar.x <= bar.x + bar.width <= timeline.WIDTH for bar in bars)


def test_an_expired_hold_waited_for_people_throughout() -> None:
    held = timeline.build([entry(1, 0), entry(1, 1_000)], {7: ("held", at(2))}, at(1_005))
    assert [(wait.label, wait.milliseconds) for wait in held.waits] == [("waiting for a person", 998)]


def test_every_further_pass_is_a_workers() -> None:
    found = timeline.build([entry(1, 0), entry(6, 1), entry(1, 10), entry(10, 12), entry(1, 40), entry(10, 42)], {})
    assert [bar.label for bar in found.steps[0].bars] == ["web, pass 1", "worker, pass 2", "worker, pass 3"]
    alone = timeline.build([entry(1, 0), entry(10, 5)], {})
    assert {bar.label for step in alone.steps for bar in step.bars} == {"worker, pass 1"}


@pytest.mark.parametrize(
    ("milliseconds", "said"),
    [(0, "0.0 ms"), (999.94, "999.9 ms"), (1_000, "1.00 s"), (59_990, "59.99 s"), (1_206_738.9, "20 min 7 s"),
     (3_600_000, "1 h 0 min"), (100 * 3_600_000, "100 h 0 min")],
)  # fmt: skip
def test_lengths_are_said_as_people_say_them(milliseconds: float, said: str) -> None:
    assert timeline.duration(milliseconds) == said
