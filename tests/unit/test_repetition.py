"""The breakers as rules over alarms: who is stopped, by what, and which turn is for answering."""

import pytest

from tests.spec.requirements import gate
from toolsys.domain import repetition
from toolsys.domain.repetition import Alarm
from toolsys.domain.states import OutcomeStatus


def alarm(outcome: OutcomeStatus | None, *, name: str = "a.b", hashed: str = "h", reason: str = "r", count: int = 1,
          step: int = 1) -> Alarm:  # fmt: skip
    return Alarm(name, hashed, outcome, reason, count, step)


@gate("breaker.loop")
@pytest.mark.parametrize(("count", "stop"), [(4, "tool.loop_detected"), (5, "tool.loop_detected")])
def test_the_fifth_identical_call_is_stopped(count: int, stop: str) -> None:
    assert repetition.stopped_by([alarm(OutcomeStatus.SUCCEEDED, count=count)], "a.b", "h", None) == stop


@gate("breaker.loop")
@pytest.mark.parametrize(("name", "hashed"), [("a.c", "h"), ("a.b", "other")])
def test_another_tool_or_other_arguments_go_on(name: str, hashed: str) -> None:
    assert repetition.stopped_by([alarm(OutcomeStatus.SUCCEEDED, count=4)], name, hashed, None) is None


@gate("breaker.loop")
def test_a_count_that_new_evidence_restarted_later_is_what_counts() -> None:
    newest_first = [alarm(OutcomeStatus.DENIED, count=1, step=9), alarm(OutcomeStatus.SUCCEEDED, count=4)]
    assert repetition.stopped_by(newest_first, "a.b", "h", None) is None


@gate("breaker.answer_only")
@pytest.mark.parametrize(("previous", "stop"), [(7, "tool.loop_detected"), (8, None), (None, None)])
def test_the_turn_after_the_fourth_identical_call_is_for_answering(previous: int | None, stop: str | None) -> None:
    alarms = [alarm(OutcomeStatus.SUCCEEDED, count=4, step=7)]
    assert repetition.stopped_by(alarms, "x.y", "z", previous) == stop


@gate("breaker.uncertain")
def test_an_uncertain_call_is_never_proposed_again() -> None:
    alarms = [alarm(OutcomeStatus.SUCCEEDED), alarm(OutcomeStatus.UNCERTAIN)]
    assert repetition.stopped_by(alarms, "a.b", "h", None) == "tool.repeat_uncertain"
    assert repetition.stopped_by(alarms, "a.b", "other", None) is None


@gate("breaker.denied")
@pytest.mark.parametrize(
    ("alarms", "is_third"),
    [
        ([alarm(OutcomeStatus.DENIED)] * 2, True),
        ([alarm(OutcomeStatus.DENIED)], False),
        ([alarm(OutcomeStatus.DENIED), alarm(OutcomeStatus.DENIED, reason="other")], False),
        ([alarm(OutcomeStatus.DENIED), alarm(OutcomeStatus.FAILED)], False),
        ([alarm(OutcomeStatus.DENIED), alarm(OutcomeStatus.DENIED, hashed="other")], False),
    ],
)
def test_the_third_identical_denial_is_told_from_others(alarms: list[Alarm], is_third: bool) -> None:
    assert repetition.is_repeated_denial(alarms, "a.b", "h", "r") is is_third
