"""Times of the steps: collected for one call, taken once, kept also where a step refuses."""

import pytest

from tests.spec.requirements import gate
from toolsys import trace


@trace.timed(3)
def refuse() -> None:
    raise PermissionError


@trace.timed(5)
def answer() -> str:
    return "done"


@gate("trace.steps")
def test_each_step_is_noted_with_its_time_and_taken_once() -> None:
    trace.begin()
    assert answer() == "done"
    with pytest.raises(PermissionError):
        refuse()
    found = trace.taken()
    assert [entry["step"] for entry in found] == [5, 3]
    assert all(set(entry) == {"step", "at_ms", "us"} and entry["us"] >= 0 for entry in found)
    assert trace.taken() == []


def test_a_new_call_begins_with_nothing() -> None:
    trace.begin()
    answer()
    trace.begin()
    assert trace.taken() == []


@gate("trace.steps")
def test_all_fourteen_steps_have_their_names() -> None:
    assert list(trace.STEP_NAMES) == list(range(1, 15))
    assert set(trace.STEP_NAMES) >= trace.COMMIT_STEPS == {7, 8, 9, 10, 13}
