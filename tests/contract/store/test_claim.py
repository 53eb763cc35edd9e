"""A claim is one worker's right to one attempt: won by epoch, bounded in number, kept by a lease."""

from dataclasses import replace
from datetime import timedelta

from tests.contract.store.cases import WRITE, call_of, case_of, claim_again, claimed, concluded, intended, taken
from tests.contract.store.worlds import LIMITS, World
from tests.spec.requirements import gate
from toolsys.domain.calls import Claim, Disposition, Progress
from toolsys.domain.states import InvocationStatus, OutcomeStatus


@gate("store.contract")
def test_a_claim_carries_the_row_s_right_to_one_attempt(world: World) -> None:
    store, call = world.store(), call_of(world)
    intended(store, call)
    case = claimed(store, call)
    claim, seen = case.claim, world.seen(call.invocation_id)
    assert claim is not None
    assert (claim.invocation_id, claim.epoch, claim.attempt_number) == (call.invocation_id, 1, 1)
    assert (claim.authz_epoch, claim.lease_seconds) == (case.facts.authz_epoch, LIMITS.lease_seconds)
    assert (claim.effect_sent_at, claim.operation_deadline) == (None, seen.operation_deadline)
    assert 29 < claim.remaining_seconds < 31
    assert (seen.status, seen.claimed_by, seen.claim_epoch) == (InvocationStatus.RUNNING, "w1", 1)
    assert seen.events[-1] == "tool.call.started"
    assert seen.lease_expires_at is not None
    assert seen.operation_deadline is not None
    assert abs(seen.lease_expires_at - seen.operation_deadline - timedelta(seconds=30)) < timedelta(seconds=1)


def test_the_operation_ends_no_later_than_its_run(world: World) -> None:
    store, call = world.store(), call_of(world)
    intended(store, call)
    world.pass_run_deadline()
    assert taken(store, call).remaining_seconds == 0


def test_two_workers_with_the_same_facts_win_one_claim(world: World) -> None:
    store, call = world.store(), call_of(world)
    first = intended(store, call)
    second = case_of(store, call)
    assert isinstance(claim_again(store, first), Claim)
    assert claim_again(store, second) == Disposition(call.invocation_id, Progress.IN_FLIGHT)
    assert world.seen(call.invocation_id).claim_epoch == 1


def test_a_live_lease_keeps_others_away_even_with_the_present_epoch(world: World) -> None:
    store, call = world.store(), call_of(world)
    intended(store, call)
    claimed(store, call)
    assert claim_again(store, case_of(store, call)).__class__ is Disposition
    facts = store.read_facts(call)
    assert facts.invocation is not None
    assert facts.invocation.is_lease_live


def test_a_passed_lease_is_taken_over_under_the_next_epoch(world: World) -> None:
    store, other, call = world.store(), world.store(worker="w2"), call_of(world)
    intended(store, call)
    claimed(store, call)
    world.pass_lease(call.invocation_id)
    case = claimed(other, call)
    assert case.claim is not None
    seen = world.seen(call.invocation_id)
    assert (case.claim.epoch, seen.claimed_by, seen.events.count("tool.call.started")) == (2, "w2", 2)


def test_a_suspended_row_is_not_claimed(world: World) -> None:
    store, call = world.store(), call_of(world)
    case = intended(store, call)
    world.suspend(call.invocation_id)
    assert claim_again(store, case) == Disposition(call.invocation_id, Progress.IN_FLIGHT)


def test_a_terminal_row_is_not_claimed(world: World) -> None:
    store, call = world.store(), call_of(world)
    late = intended(store, call)
    store.commit_refusal(case_of(store, call), "policy.scope.missing", "")
    assert claim_again(store, late) == Disposition(call.invocation_id, Progress.IN_FLIGHT)
    assert world.seen(call.invocation_id).claim_epoch == 0


def test_claims_are_bounded_and_the_last_refusal_settles(world: World) -> None:
    store, call = world.store(), call_of(world)
    intended(store, call)
    for _ in range(LIMITS.max_claims):
        claimed(store, call)
        world.pass_lease(call.invocation_id)
    spent = claim_again(store, case_of(store, call))
    assert spent == Disposition(call.invocation_id, Progress.SETTLED, OutcomeStatus.FAILED, "tool.claims_spent")
    assert world.seen(call.invocation_id).status is InvocationStatus.FAILED


def test_a_write_that_was_sent_ends_uncertain_when_its_claims_are_spent(world: World) -> None:
    store, call = world.store(replace(LIMITS, max_claims=1)), call_of(world, WRITE)
    intended(store, call, WRITE)
    case = claimed(store, call, WRITE)
    assert case.claim is not None
    assert store.commit_watermark(case.claim).held
    world.pass_lease(call.invocation_id)
    spent = claim_again(store, case_of(store, call, WRITE))
    assert spent == Disposition(call.invocation_id, Progress.SETTLED, OutcomeStatus.UNCERTAIN, "tool.outcome_unknown")


def test_a_cancelled_call_is_settled_by_who_would_have_claimed_it(world: World) -> None:
    store, call = world.store(), call_of(world)
    case = intended(store, call)
    world.cancel_call(call.invocation_id)
    answer = claim_again(store, case)
    assert answer == Disposition(call.invocation_id, Progress.SETTLED, OutcomeStatus.FAILED, "tool.cancelled")
    assert world.seen(call.invocation_id).events[-1] == "tool.call.failed"


def test_a_call_cancelled_right_after_its_intent_is_settled_by_the_worker_that_wrote_it(world: World) -> None:
    """The worker goes on with the row that it wrote; its facts were read before there was one."""
    store, call = world.store(), call_of(world)
    case = case_of(store, call)
    row = store.commit_intent(case)
    assert not isinstance(row, Disposition)
    world.cancel_run()
    answer = store.commit_claim(case, row)
    assert answer == Disposition(call.invocation_id, Progress.SETTLED, OutcomeStatus.FAILED, "tool.cancelled")


@gate("tenancy.claims")
def test_a_tenant_has_a_cap_of_running_calls_and_a_passed_lease_frees_a_place(world: World) -> None:
    store = world.store()
    calls = [call_of(world, number=number) for number in range(1, LIMITS.claim_cap_per_tenant + 2)]
    cases = [intended(store, call) for call in calls]
    for case in cases[:-1]:
        assert isinstance(claim_again(store, case), Claim)
    capped = calls[-1].invocation_id
    before = world.seen(capped).dispatch_after
    assert claim_again(store, cases[-1]) == Disposition(capped, Progress.IN_FLIGHT)
    seen = world.seen(capped)
    assert (seen.status, seen.claim_epoch) == (InvocationStatus.AUTHORIZED, 0)
    assert seen.dispatch_after is not None
    assert before is not None
    assert seen.dispatch_after < before, "it is looked at again in a second"
    world.pass_lease(calls[0].invocation_id)
    assert isinstance(claim_again(store, cases[-1]), Claim)


def test_a_claim_knows_the_watermark_of_an_earlier_attempt(world: World) -> None:
    store, call = world.store(), call_of(world, WRITE)
    intended(store, call, WRITE)
    first = claimed(store, call, WRITE)
    assert first.claim is not None
    assert store.commit_watermark(first.claim).held
    world.pass_lease(call.invocation_id)
    second = claimed(store, call, WRITE)
    assert second.claim is not None
    assert second.claim.effect_sent_at == world.seen(call.invocation_id).effect_sent_at is not None


@gate("recovery.older_epoch")
def test_a_claim_does_not_make_a_row_of_an_older_database_younger(world: World) -> None:
    """Its watermark may have been lost with the old database, and whoever claims it may die before saying so."""
    store, call = world.store(), call_of(world, WRITE)
    intended(store, call, WRITE)
    world.raise_database_epoch()
    claimed(store, call, WRITE)
    world.pass_lease(call.invocation_id)
    facts = store.read_facts(call)
    assert facts.invocation is not None
    assert (facts.invocation.predates_database_epoch, facts.invocation.effect_sent) == (True, True)


def test_an_ended_call_frees_its_place_under_the_cap(world: World) -> None:
    store = world.store(replace(LIMITS, claim_cap_per_tenant=1))
    first, second = call_of(world, number=1), call_of(world, number=2)
    intended(store, first)
    intended(store, second)
    store.commit_result(concluded(claimed(store, first)))
    assert isinstance(claim_again(store, case_of(store, second)), Claim)
