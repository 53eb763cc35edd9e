"""What a breaker looks at: identical calls are counted, denials alarm, new evidence begins the count again."""

import pytest

from tests.contract.store.cases import READ, WRITE, call_of, case_of, claimed, concluded, intended
from tests.contract.store.worlds import World
from tests.spec.requirements import gate
from toolsys.domain.calls import ProposedCall
from toolsys.domain.repetition import Alarm
from toolsys.domain.states import OutcomeStatus, RunStatus
from toolsys.ports import Store


def succeed(world: World, store: Store, number: int, evidence: str | None = None) -> None:
    call = call_of(world, number=number)
    intended(store, call)
    store.commit_result(concluded(claimed(store, call), evidence=evidence))


def alarms(world: World, store: Store) -> tuple[Alarm, ...]:
    return store.read_facts(call_of(world, number=99)).run.alarms


def uncertain(world: World, store: Store) -> tuple[ProposedCall, Alarm]:
    """Return the first call of the run, whose outcome nobody knows, and the alarm that it is."""
    call = call_of(world, WRITE, number=1)
    intended(store, call, WRITE)
    unknown = concluded(
        claimed(store, call, WRITE), outcome_status=OutcomeStatus.UNCERTAIN, reason_code="tool.outcome_unknown"
    )
    store.commit_result(unknown)
    (alarm,) = alarms(world, store)
    assert alarm.outcome_status is OutcomeStatus.UNCERTAIN
    return call, alarm


@gate("store.contract")
def test_a_denied_call_alarms_newest_first_and_a_success_does_not(world: World) -> None:
    store = world.store()
    succeed(world, store, 1)
    for number in (2, 3):
        store.commit_refusal(case_of(store, call_of(world, number=number)), "policy.scope.missing", "")
    found = alarms(world, store)
    assert [(alarm.step_number, alarm.identical_count, alarm.outcome_status, alarm.reason_code) for alarm in found] == [
        (3, 3, OutcomeStatus.DENIED, "policy.scope.missing"),
        (2, 2, OutcomeStatus.DENIED, "policy.scope.missing"),
    ]  # fmt: skip
    assert {alarm.tool_name for alarm in found} == {READ.name}


def test_the_fourth_identical_call_alarms_whatever_its_outcome(world: World) -> None:
    store = world.store()
    for number in range(1, 5):
        assert alarms(world, store) == ()
        succeed(world, store, number)
    (alarm,) = alarms(world, store)
    assert (alarm.step_number, alarm.identical_count) == (4, 4)


def test_new_evidence_begins_the_count_again_and_the_same_evidence_does_not(world: World) -> None:
    store = world.store()
    for number, evidence in enumerate(("a", "b", "b", "b", "b"), 1):
        succeed(world, store, number, evidence)
    (alarm,) = alarms(world, store)
    assert (alarm.step_number, alarm.identical_count) == (5, 4)


def test_the_denial_that_ends_a_run_fails_it(world: World) -> None:
    store, call = world.store(), call_of(world)
    store.commit_refusal(case_of(store, call), "tool.policy_denied", "three times")
    assert world.seen(call.invocation_id).run_status is RunStatus.FAILED


def test_the_step_before_is_the_last_one_that_was_written(world: World) -> None:
    store = world.store()
    assert store.read_facts(call_of(world, number=1)).run.previous_step is None
    succeed(world, store, 3)
    assert store.read_facts(call_of(world, number=9)).run.previous_step == 3
    assert store.read_facts(call_of(world, number=3)).run.previous_step is None


@gate("store.contract")
@gate("recovery.resolution")
@pytest.mark.parametrize("has_happened", [True, False])
def test_an_uncertain_call_stays_so_and_alarms_until_it_is_known_not_to_have_happened(
    world: World, has_happened: bool
) -> None:
    store = world.store()
    call, alarm = uncertain(world, store)
    world.resolve(call.invocation_id, has_happened=has_happened)
    assert alarms(world, store) == ((alarm,) if has_happened else ())
    assert world.seen(call.invocation_id).outcome_status is OutcomeStatus.UNCERTAIN


@gate("breaker.uncertain")
@gate("recovery.resolution")
def test_a_later_finding_takes_back_an_earlier_one(world: World) -> None:
    store = world.store()
    call, alarm = uncertain(world, store)
    for has_happened, left in ((False, ()), (True, (alarm,)), (False, ())):
        world.resolve(call.invocation_id, has_happened=has_happened)
        assert alarms(world, store) == left


@gate("breaker.uncertain")
def test_no_number_of_denials_hides_what_alone_stops_a_call(world: World) -> None:
    store = world.store()
    _, unknown = uncertain(world, store)
    for number in range(2, 6):
        succeed(world, store, number)
    for number in range(6, 208):
        call = call_of(world, number=number, arguments={"line": f"{number}"})
        store.commit_refusal(case_of(store, call), "policy.scope.missing", "")
    found = alarms(world, store)
    assert len(found) == 200
    assert [alarm.step_number for alarm in found] == [*range(207, 9, -1), 5, 1]
    assert (found[-1], found[-2].identical_count) == (unknown, 4)
