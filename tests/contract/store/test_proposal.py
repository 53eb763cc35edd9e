"""A new call is written once: intent, hold or refusal; duplicates, conflicts and cancelled runs write nothing."""

import pytest

from tests.contract.store.cases import READ, WRITE, call_of, case_of, held, intended
from tests.contract.store.worlds import World
from tests.spec.requirements import gate
from toolsys.domain.calls import Disposition, Invocation, Progress
from toolsys.domain.spec import STRICTEST
from toolsys.domain.states import ApprovalStatus, InvocationStatus, OutcomeStatus, PolicyVerdict, RunStatus
from toolsys.ports import Case
from toolsys.problems import Problem


@gate("store.contract")
def test_an_intent_writes_the_row_with_its_decision_payload_and_events(world: World) -> None:
    store, call = world.store(), call_of(world)
    case = case_of(store, call)
    row = store.commit_intent(case)
    assert case.normalized is not None
    assert row == Invocation(
        id=call.invocation_id, status=InvocationStatus.AUTHORIZED, tool_name="demo.echo", tool_version="1",
        arguments_hash=case.normalized.arguments_hash, idempotency_key=case.normalized.idempotency_key,
        classification=READ.classification, claim_epoch=0, is_lease_live=False, effect_sent_at=None, attempt_number=1,
        verdict=PolicyVerdict.ALLOW,
    )  # fmt: skip
    seen = world.seen(call.invocation_id)
    assert (seen.status, seen.claim_epoch, seen.decisions) == (InvocationStatus.AUTHORIZED, 0, 1)
    assert (seen.payloads, seen.approval, seen.is_step_closed) == (frozenset({"arguments"}), None, False)
    assert seen.events == ("tool.call.proposed", "tool.call.authorized")
    assert store.read_facts(call).invocation == row


def test_a_second_intent_of_the_same_call_is_stale(world: World) -> None:
    """Both read before either wrote; the second row would have another id."""
    store, first, second = world.store(), call_of(world), call_of(world)
    cases = [case_of(store, first), case_of(store, second)]
    assert isinstance(store.commit_intent(cases[0]), Invocation)
    assert store.commit_intent(cases[1]) == Disposition(second.invocation_id, Progress.STALE)
    assert world.row_count() == 1


def test_a_second_hold_and_a_second_refusal_are_stale_too(world: World) -> None:
    store, first, second = world.store(), call_of(world, WRITE), call_of(world, WRITE)
    cases = [case_of(store, first, WRITE), case_of(store, second, WRITE), case_of(store, second, WRITE)]
    store.commit_hold(cases[0])
    assert store.commit_hold(cases[1]).state is Progress.STALE
    assert store.commit_refusal(cases[2], "policy.scope.missing", "").state is Progress.STALE
    assert world.row_count() == 1


def test_a_remembered_intent_is_returned_as_it_was_read(world: World) -> None:
    store, call = world.store(), call_of(world)
    again = intended(store, call)
    assert store.commit_intent(again) == again.row
    assert world.seen(call.invocation_id).events == ("tool.call.proposed", "tool.call.authorized")


def test_the_same_step_with_another_body_is_a_conflict_and_writes_nothing(world: World) -> None:
    store = world.store()
    other = case_of(store, call_of(world, body_hash="other", call_id="call_1"))
    intended(store, call_of(world))
    with pytest.raises(Problem) as refused:
        store.commit_intent(other)
    assert (refused.value.reason_code, world.row_count()) == ("step.conflict", 1)


def test_a_cancelled_run_takes_no_intent_and_no_hold(world: World) -> None:
    """The cancellation came after the facts were read."""
    store, read, write = world.store(), call_of(world), call_of(world, WRITE)
    cases = [case_of(store, read), case_of(store, write, WRITE)]
    world.cancel_run()
    assert store.commit_intent(cases[0]) == Disposition(read.invocation_id, Progress.STALE)
    assert store.commit_hold(cases[1]).state is Progress.STALE
    assert world.row_count() == 0
    assert store.read_facts(read).step is None


def test_a_cancelled_run_still_takes_a_refusal(world: World) -> None:
    """What is refused starts nothing, and the caller gets its reason."""
    store, call = world.store(), call_of(world)
    case = case_of(store, call)
    world.cancel_run()
    assert store.commit_refusal(case, "tool.run_cancelled", "").is_settled


def test_a_hold_asks_for_one_approval_and_the_run_waits(world: World) -> None:
    store, call = world.store(), call_of(world, WRITE)
    assert store.commit_hold(case_of(store, call, WRITE)) == Disposition(call.invocation_id, Progress.HELD)
    seen = world.seen(call.invocation_id)
    assert (seen.status, seen.approval) == (InvocationStatus.WAITING_FOR_APPROVAL, ApprovalStatus.PENDING)
    assert seen.run_status is RunStatus.WAITING_FOR_APPROVAL
    assert seen.events == ("tool.call.proposed", "approval.requested")
    facts = store.read_facts(call)
    assert facts.approval is not None
    assert not facts.approval.is_expired
    assert not facts.approval.is_consumable
    assert facts.approval.verdict is PolicyVerdict.REQUIRE_EXPERT_APPROVAL


def test_a_request_expires_no_later_than_its_run(world: World) -> None:
    store, call = world.store(), call_of(world, WRITE)
    case = case_of(store, call, WRITE)
    world.pass_run_deadline()
    store.commit_hold(case)
    facts = store.read_facts(call)
    assert facts.approval is not None
    assert facts.approval.is_expired


def test_a_refused_call_is_one_terminal_row_and_closes_its_step(world: World) -> None:
    store, call = world.store(), call_of(world, arguments={"wrong": 1})
    refused = store.commit_refusal(Case(call, store.read_facts(call)), "policy.matrix.unknown_tool", "who?")
    assert refused == Disposition(
        call.invocation_id, Progress.SETTLED, OutcomeStatus.DENIED, "policy.matrix.unknown_tool"
    )
    seen = world.seen(call.invocation_id)
    assert (seen.status, seen.outcome_status) == (InvocationStatus.DENIED, OutcomeStatus.DENIED)
    assert (seen.is_step_closed, seen.decisions) == (True, 0)
    assert seen.events == ("tool.call.proposed", "tool.call.denied")
    facts = store.read_facts(call)
    assert facts.invocation is not None
    assert facts.invocation.classification == STRICTEST


def test_arguments_without_canonical_form_are_keyed_and_keep_no_payload(world: World) -> None:
    store, call = world.store(), call_of(world, arguments=None, raw_hash="f" * 64)
    store.commit_refusal(Case(call, store.read_facts(call)), "tool.arguments_invalid", "")
    facts = store.read_facts(call)
    assert facts.invocation is not None
    assert facts.invocation.arguments_hash == "f" * 64
    assert world.seen(call.invocation_id).payloads == frozenset()


def test_a_step_is_closed_by_its_last_call_only(world: World) -> None:
    store = world.store()
    first, second = (
        call_of(world, call_count=2), call_of(world, call_count=2, call_id="call_1", call_index=1),
    )  # fmt: skip
    store.commit_refusal(case_of(store, first), "policy.scope.missing", "")
    assert not world.seen(first.invocation_id).is_step_closed
    store.commit_refusal(case_of(store, second), "policy.scope.missing", "")
    assert world.seen(second.invocation_id).is_step_closed


def test_another_tenant_s_run_does_not_exist(world: World) -> None:
    call = call_of(world)
    with pytest.raises(Problem) as refused:
        world.store().read_facts(call_of(world, run_id=call.invocation_id))
    assert refused.value.reason_code == "request.not_found"


def test_a_held_call_is_refused_with_its_request_voided(world: World) -> None:
    store, call = world.store(), call_of(world, WRITE)
    held(store, call)
    refused = store.commit_refusal(case_of(store, call, WRITE), "policy.scope.missing", "")
    seen = world.seen(call.invocation_id)
    assert (refused.outcome_status, seen.approval) == (OutcomeStatus.DENIED, ApprovalStatus.VOIDED)
    assert (seen.run_status, seen.is_step_closed) == (RunStatus.RUNNING, True)


def test_a_held_call_past_its_expiry_ends_with_an_expired_request(world: World) -> None:
    store, call = world.store(), call_of(world, WRITE)
    world.pass_expiry(held(store, call))
    store.commit_refusal(case_of(store, call, WRITE), "policy.approval.expired", "")
    assert world.seen(call.invocation_id).approval is ApprovalStatus.EXPIRED


def test_a_rejected_request_stays_rejected(world: World) -> None:
    store, call = world.store(), call_of(world, WRITE)
    world.decide(held(store, call), is_approval=False)
    store.commit_refusal(case_of(store, call, WRITE), "policy.approval.expert_rejected", "")
    seen = world.seen(call.invocation_id)
    assert (seen.status, seen.approval) == (InvocationStatus.DENIED, ApprovalStatus.REJECTED)


@gate("run.budget")
def test_of_two_calls_that_each_read_one_left_one_begins(world: World) -> None:
    """A refusal costs nothing, and neither does a call that is known."""
    store, first, second = world.store(), call_of(world, number=1), call_of(world, WRITE, number=2)
    world.limit_calls(1)
    refused = call_of(world, number=3)
    store.commit_refusal(case_of(store, refused), "policy.scope.missing", "")
    cases = [case_of(store, first), case_of(store, second, WRITE)]
    assert [case.facts.run.calls_left for case in cases] == [1, 1]
    assert isinstance(store.commit_intent(cases[0]), Invocation)
    assert store.commit_hold(cases[1]) == Disposition(second.invocation_id, Progress.STALE)
    assert store.read_facts(second).run.calls_left == 0
    assert world.row_count() == 2
