"""An approval is consumed once, in time, for exactly what it was given for, together with the intent."""

from uuid import UUID

from tests.contract.store.cases import WRITE, call_of, case_of, claimed, held
from tests.contract.store.worlds import World
from tests.spec.requirements import gate
from toolsys.domain.calls import Disposition, Invocation, Progress, ProposedCall
from toolsys.domain.states import ApprovalStatus, InvocationStatus, RunStatus
from toolsys.ports import Store


def approved(world: World, store: Store, digest: str | None = None) -> tuple[ProposedCall, UUID]:
    call = call_of(world, WRITE)
    row_id = held(store, call)
    world.decide(row_id, is_approval=True, digest=digest)
    return call, row_id


@gate("store.contract")
def test_an_approved_intent_consumes_the_request_and_the_run_goes_on(world: World) -> None:
    store = world.store()
    call, row_id = approved(world, store)
    case = case_of(store, call, WRITE)
    assert case.facts.approval is not None
    assert case.facts.approval.is_consumable
    assert store.commit_intent(case) == case.row
    seen = world.seen(row_id)
    assert (seen.status, seen.approval) == (InvocationStatus.AUTHORIZED, ApprovalStatus.CONSUMED)
    assert (seen.run_status, seen.decisions) == (RunStatus.RUNNING, 2)
    assert seen.events == ("tool.call.proposed", "approval.requested", "approval.approved", "tool.call.authorized")


def test_an_approval_is_consumed_once(world: World) -> None:
    store = world.store()
    call, row_id = approved(world, store)
    first, second = case_of(store, call, WRITE), case_of(store, call, WRITE)
    assert isinstance(store.commit_intent(first), Invocation)
    assert store.commit_intent(second) == Disposition(row_id, Progress.STALE)
    assert world.seen(row_id).decisions == 2


def test_an_undecided_request_is_not_consumed(world: World) -> None:
    store, call = world.store(), call_of(world, WRITE)
    row_id = held(store, call)
    assert store.commit_intent(case_of(store, call, WRITE)) == Disposition(row_id, Progress.STALE)
    assert world.seen(row_id).status is InvocationStatus.WAITING_FOR_APPROVAL


def test_a_rejected_request_is_not_consumed(world: World) -> None:
    store, call = world.store(), call_of(world, WRITE)
    row_id = held(store, call)
    world.decide(row_id, is_approval=False)
    assert store.commit_intent(case_of(store, call, WRITE)) == Disposition(row_id, Progress.STALE)
    assert world.seen(row_id).approval is ApprovalStatus.REJECTED


def test_an_approval_of_something_else_is_not_consumed(world: World) -> None:
    store = world.store()
    call, row_id = approved(world, store, digest="0" * 64)
    assert store.commit_intent(case_of(store, call, WRITE)) == Disposition(row_id, Progress.STALE)
    assert world.seen(row_id).approval is ApprovalStatus.APPROVED


def test_an_approval_past_its_time_of_use_is_not_consumed(world: World) -> None:
    """It passed between the read and the commit."""
    store = world.store()
    call, row_id = approved(world, store)
    case = case_of(store, call, WRITE)
    world.pass_consumption(row_id)
    assert store.commit_intent(case) == Disposition(row_id, Progress.STALE)
    facts = store.read_facts(call)
    assert facts.approval is not None
    assert (facts.approval.is_consumable, facts.approval.is_expired) == (False, False)


def test_the_end_of_deciding_does_not_end_the_use(world: World) -> None:
    store = world.store()
    call, row_id = approved(world, store)
    world.pass_expiry(row_id)
    assert isinstance(store.commit_intent(case_of(store, call, WRITE)), Invocation)


def test_a_call_cancelled_meanwhile_consumes_nothing(world: World) -> None:
    store = world.store()
    call, row_id = approved(world, store)
    case = case_of(store, call, WRITE)
    world.cancel_call(row_id)
    assert store.commit_intent(case) == Disposition(row_id, Progress.STALE)
    assert world.seen(row_id).approval is ApprovalStatus.APPROVED


def test_an_intent_after_the_call_has_ended_is_stale(world: World) -> None:
    store = world.store()
    call, row_id = approved(world, store)
    late, ending = case_of(store, call, WRITE), case_of(store, call, WRITE)
    store.commit_refusal(ending, "policy.scope.missing", "")
    assert store.commit_intent(late) == Disposition(row_id, Progress.STALE)
    assert world.seen(row_id).status is InvocationStatus.DENIED


def test_what_the_run_waits_for_counts_its_other_held_calls(world: World) -> None:
    store = world.store()
    held(store, call_of(world, WRITE, number=2))
    call, row_id = approved(world, store)
    store.commit_intent(case_of(store, call, WRITE))
    assert world.seen(row_id).run_status is RunStatus.WAITING_FOR_APPROVAL


@gate("recovery.older_epoch")
def test_consuming_an_approval_does_not_make_a_row_of_an_older_database_younger(world: World) -> None:
    """What ran before the restore is unknown; a crash right after this commit must not forget that."""
    store = world.store()
    call, _ = approved(world, store)
    world.raise_database_epoch()
    store.commit_intent(case_of(store, call, WRITE))
    case = claimed(store, call, WRITE)
    assert case.row is not None
    assert case.row.effect_sent
