"""Every ending of a known row: compare-and-set on status and epoch; nothing ends twice."""

from dataclasses import replace

from tests.contract.store.cases import READ, WRITE, begun, call_of, case_of, claimed, concluded, held, intended
from tests.contract.store.worlds import World
from tests.spec.requirements import gate
from toolsys.domain.calls import Disposition, Progress, Retry
from toolsys.domain.states import InvocationStatus, OutcomeStatus
from toolsys.domain.trust import TrustLevel
from toolsys.ids import uuid7


@gate("store.contract")
def test_a_result_ends_the_row_with_payload_event_and_step(world: World) -> None:
    store, call = world.store(), call_of(world)
    intended(store, call)
    settled = store.commit_result(concluded(claimed(store, call)))
    assert settled == Disposition(call.invocation_id, Progress.SETTLED, OutcomeStatus.SUCCEEDED, "tool.succeeded")
    seen = world.seen(call.invocation_id)
    assert (seen.status, seen.outcome_status, seen.reason_code) == (
        InvocationStatus.SUCCEEDED, OutcomeStatus.SUCCEEDED, "tool.succeeded",
    )  # fmt: skip
    assert (seen.lease_expires_at, seen.dispatch_after, seen.is_step_closed) == (None, None, True)
    assert seen.payloads == {"arguments", "result"}
    assert seen.events[-2:] == ("tool.call.started", "tool.call.completed")


def test_a_terminal_row_is_read_back_with_its_outcome(world: World) -> None:
    store, call = world.store(), call_of(world)
    intended(store, call)
    store.commit_result(concluded(claimed(store, call)))
    row = store.read_facts(call).invocation
    assert row is not None
    assert (row.outcome_status, row.reason_code, row.is_lease_live) == (
        OutcomeStatus.SUCCEEDED, "tool.succeeded", False,
    )  # fmt: skip


def test_unavailable_is_a_failed_row(world: World) -> None:
    store, call = world.store(), call_of(world)
    intended(store, call)
    case = concluded(
        claimed(store, call), outcome_status=OutcomeStatus.UNAVAILABLE, reason_code="tool.server_unreachable",
        payload={},
    )  # fmt: skip
    assert store.commit_result(case).outcome_status is OutcomeStatus.UNAVAILABLE
    seen = world.seen(call.invocation_id)
    assert (seen.status, seen.outcome_status) == (InvocationStatus.FAILED, OutcomeStatus.UNAVAILABLE)
    assert (seen.events[-1], seen.payloads) == ("tool.call.failed", frozenset({"arguments"}))


def test_a_late_result_of_an_older_claim_is_refused_while_the_next_one_runs(world: World) -> None:
    """Status alone would let it in: the row is running again."""
    store, call = world.store(), call_of(world)
    intended(store, call)
    late = concluded(claimed(store, call))
    world.pass_lease(call.invocation_id)
    claimed(store, call)
    assert store.commit_result(late) == Disposition(call.invocation_id, Progress.STALE)
    assert world.seen(call.invocation_id).status is InvocationStatus.RUNNING


def test_a_row_ends_once(world: World) -> None:
    """Epoch alone would let the second in: it is the same claim."""
    store, call = world.store(), call_of(world)
    intended(store, call)
    case = claimed(store, call)
    store.commit_result(concluded(case))
    failed = concluded(case, outcome_status=OutcomeStatus.FAILED, reason_code="tool.timeout", payload={})
    assert store.commit_result(failed) == Disposition(call.invocation_id, Progress.STALE)
    seen = world.seen(call.invocation_id)
    assert (seen.status, seen.reason_code) == (InvocationStatus.SUCCEEDED, "tool.succeeded")
    assert seen.events.count("tool.call.completed") + seen.events.count("tool.call.failed") == 1


def test_who_holds_the_claim_may_persist_after_its_lease_while_nobody_took_over(world: World) -> None:
    store, call = world.store(), call_of(world)
    intended(store, call)
    case = claimed(store, call)
    world.pass_lease(call.invocation_id)
    assert store.commit_result(concluded(case)).is_settled


def test_a_result_of_a_released_claim_is_refused(world: World) -> None:
    store, call = world.store(), call_of(world)
    intended(store, call)
    case = claimed(store, call)
    assert case.claim is not None
    store.commit_release(case.claim, Retry(1))
    assert store.commit_result(concluded(case)) == Disposition(call.invocation_id, Progress.STALE)


def test_a_running_call_is_not_ended_from_outside_while_its_lease_lives(world: World) -> None:
    store, call = world.store(), call_of(world)
    intended(store, call)
    claimed(store, call)
    refused = store.commit_refusal(case_of(store, call), "tool.run_cancelled", "")
    assert refused == Disposition(call.invocation_id, Progress.STALE)
    assert world.seen(call.invocation_id).status is InvocationStatus.RUNNING


def test_a_running_call_whose_lease_has_passed_may_be_ended_from_outside(world: World) -> None:
    store, call = world.store(), call_of(world)
    intended(store, call)
    claimed(store, call)
    world.pass_lease(call.invocation_id)
    refused = store.commit_refusal(case_of(store, call), "tool.run_cancelled", "")
    assert refused == Disposition(call.invocation_id, Progress.SETTLED, OutcomeStatus.FAILED, "tool.run_cancelled")
    assert world.seen(call.invocation_id).is_step_closed


def test_a_refusal_with_facts_from_before_a_claim_is_stale(world: World) -> None:
    store, call = world.store(), call_of(world)
    before = intended(store, call)
    claimed(store, call)
    world.pass_lease(call.invocation_id)
    assert store.commit_refusal(before, "policy.scope.missing", "").state is Progress.STALE


def test_a_known_row_that_was_sent_is_refused_as_uncertain(world: World) -> None:
    store, call = world.store(), call_of(world, WRITE)
    store.commit_watermark(begun(store, call, WRITE))
    world.pass_lease(call.invocation_id)
    refused = store.commit_refusal(case_of(store, call, WRITE), "policy.switch.off", "")
    assert refused == Disposition(call.invocation_id, Progress.SETTLED, OutcomeStatus.UNCERTAIN, "tool.outcome_unknown")


def test_a_result_lowers_what_the_run_has_been_told_and_never_raises_it(world: World) -> None:
    store = world.store()
    first, second = call_of(world, number=1), call_of(world, number=2)
    for call, trust in ((first, TrustLevel.EXTERNAL_UNTRUSTED), (second, TrustLevel.INTERNAL_TOOL)):
        intended(store, call)
        store.commit_result(concluded(claimed(store, call), trust=trust))
        facts = store.read_facts(call_of(world, number=3))
        assert facts.run.delivered_trust is TrustLevel.EXTERNAL_UNTRUSTED


def test_a_step_written_later_is_capped_by_what_the_run_was_told(world: World) -> None:
    store, call = world.store(), call_of(world, READ, number=1)
    intended(store, call)
    store.commit_result(concluded(claimed(store, call), trust=TrustLevel.EXTERNAL_UNTRUSTED))
    later = call_of(world, number=2)
    intended(store, later)
    facts = store.read_facts(later)
    assert facts.step is not None
    assert facts.step.origin_trust is TrustLevel.EXTERNAL_UNTRUSTED


def test_a_step_keeps_the_trust_that_it_was_written_with(world: World) -> None:
    """What its first call was told changes nothing for its second."""
    store, call = world.store(), call_of(world, call_count=2)
    intended(store, call)
    store.commit_result(concluded(claimed(store, call), trust=TrustLevel.EXTERNAL_UNTRUSTED))
    second = replace(call, call_id="call_1", call_index=1, invocation_id=uuid7())
    assert case_of(store, second).origin_trust is TrustLevel.USER


def test_what_is_held_can_be_ended_and_the_decision_then_comes_too_late(world: World) -> None:
    store, call = world.store(), call_of(world, WRITE)
    held(store, call)
    before = case_of(store, call, WRITE)
    store.commit_refusal(case_of(store, call, WRITE), "tool.cancelled", "")
    assert store.commit_refusal(before, "policy.scope.missing", "").state is Progress.STALE
    assert world.seen(call.invocation_id).reason_code == "tool.cancelled"
