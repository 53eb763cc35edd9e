"""The fence, the heartbeat and giving back: what a claim may still do once something has changed."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.contract.store.cases import WRITE, call_of, case_of, claim_again, claimed, concluded, intended, taken
from tests.contract.store.worlds import World
from tests.spec.requirements import gate
from toolsys.domain.calls import Claim, Retry
from toolsys.domain.states import InvocationStatus
from toolsys.leases import SETTLE_SECONDS
from toolsys.ports import Case, Fence


@pytest.fixture
def case(world: World) -> Case:
    store, call = world.store(), call_of(world, WRITE)
    intended(store, call, WRITE)
    return claimed(store, call, WRITE)


@pytest.fixture
def claim(case: Case) -> Claim:
    assert case.claim is not None
    return case.claim


@gate("store.contract")
def test_the_watermark_is_set_where_everything_still_matches(world: World, claim: Claim) -> None:
    assert world.store().commit_watermark(claim) == Fence(held=True, why="held")
    assert world.seen(claim.invocation_id).effect_sent_at is not None


def test_the_watermark_keeps_its_first_time(world: World, claim: Claim) -> None:
    store = world.store()
    store.commit_watermark(claim)
    first = world.seen(claim.invocation_id).effect_sent_at
    assert store.commit_watermark(claim).held
    assert world.seen(claim.invocation_id).effect_sent_at == first


def test_a_changed_authorization_epoch_does_not_hold(world: World, claim: Claim) -> None:
    world.switch_tenant(on=False)
    world.switch_tenant(on=True)
    assert world.store().commit_watermark(claim) == Fence(held=False, why="authz_epoch")
    assert world.seen(claim.invocation_id).effect_sent_at is None


def test_a_platform_that_is_switched_off_does_not_hold(world: World, claim: Claim) -> None:
    world.switch_platform(on=False)
    assert world.store().commit_watermark(claim) == Fence(held=False, why="authz_epoch")
    # One that was won after the switch, on facts that are as new.
    won_since = replace(claim, authz_epoch=claim.authz_epoch + 1)
    assert world.store().commit_watermark(won_since) == Fence(held=False, why="switch")
    assert world.seen(claim.invocation_id).effect_sent_at is None


@gate("recovery.fence")
def test_a_raised_database_epoch_does_not_hold(world: World, claim: Claim) -> None:
    """What this claim was won on was read in the older one: it goes back to step 6, and counts as sent there."""
    world.raise_database_epoch()
    assert world.store().commit_watermark(claim) == Fence(held=False, why="authz_epoch")
    assert world.seen(claim.invocation_id).effect_sent_at is None


def test_a_cancelled_run_does_not_hold(world: World, claim: Claim) -> None:
    world.cancel_run()
    assert world.store().commit_watermark(claim) == Fence(held=False, why="cancelled")
    assert world.seen(claim.invocation_id).effect_sent_at is None


def test_a_run_cancelled_without_its_calls_does_not_hold(world: World, claim: Claim) -> None:
    world.mark_only_the_run()
    assert world.store().commit_watermark(claim) == Fence(held=False, why="cancelled")
    assert world.seen(claim.invocation_id).effect_sent_at is None


def test_a_cancelled_call_does_not_hold(world: World, claim: Claim) -> None:
    world.cancel_call(claim.invocation_id)
    assert world.store().commit_watermark(claim) == Fence(held=False, why="cancelled")


def test_a_passed_lease_does_not_hold(world: World, claim: Claim) -> None:
    world.pass_lease(claim.invocation_id)
    assert world.store().commit_watermark(claim) == Fence(held=False, why="lost")
    assert world.seen(claim.invocation_id).effect_sent_at is None


def test_an_older_claim_does_not_hold_while_the_next_one_runs(world: World, case: Case, claim: Claim) -> None:
    world.pass_lease(claim.invocation_id)
    claimed(world.store(), case.call, WRITE)
    assert world.store().commit_watermark(claim) == Fence(held=False, why="lost")
    assert world.seen(claim.invocation_id).effect_sent_at is None


def test_an_ended_call_does_not_hold(world: World, case: Case, claim: Claim) -> None:
    world.store().commit_result(concluded(case))
    assert not world.store().commit_watermark(claim).held


def test_a_live_lease_is_renewed(world: World, claim: Claim) -> None:
    before = world.seen(claim.invocation_id).lease_expires_at
    assert world.renew([claim]) == {claim.invocation_id}
    after = world.seen(claim.invocation_id).lease_expires_at
    assert before is not None
    assert after is not None
    assert after >= before


def test_a_passed_lease_is_not_renewed(world: World, claim: Claim) -> None:
    world.pass_lease(claim.invocation_id)
    assert world.renew([claim]) == set()


def test_no_lease_is_renewed_past_the_operation_deadline(world: World, claim: Claim) -> None:
    world.pass_operation_deadline(claim.invocation_id)
    assert world.renew([claim]) == set()


def test_a_renewal_reaches_past_the_operation_deadline_only_as_far_as_recording_takes(
    world: World, claim: Claim
) -> None:
    deadline = world.end_soon(claim.invocation_id, 20.0)
    assert world.renew([claim]) == {claim.invocation_id}
    assert world.seen(claim.invocation_id).lease_expires_at == deadline + timedelta(seconds=SETTLE_SECONDS)


def test_a_renewal_takes_nothing_away_from_a_lease(world: World, claim: Claim) -> None:
    """The claim's own lease may be longer than its tool's time: its result has that long to be stored."""
    before = world.seen(claim.invocation_id).lease_expires_at
    deadline = world.seen(claim.invocation_id).operation_deadline
    assert before is not None
    assert deadline is not None
    assert before > deadline + timedelta(seconds=SETTLE_SECONDS)
    assert world.renew([claim]) == {claim.invocation_id}
    assert world.seen(claim.invocation_id).lease_expires_at == before


def test_a_lost_claim_renews_nothing_of_its_successor(world: World, case: Case, claim: Claim) -> None:
    world.pass_lease(claim.invocation_id)
    successor = taken(world.store(), case.call, WRITE)
    assert world.renew([claim]) == set()
    assert world.renew([successor]) == {claim.invocation_id}


def test_an_ended_call_is_not_renewed(world: World, case: Case, claim: Claim) -> None:
    world.store().commit_result(concluded(case))
    assert world.renew([claim]) == set()


def test_a_released_call_is_free_at_once(world: World, case: Case, claim: Claim) -> None:
    store = world.store()
    assert store.commit_release(claim, Retry(1))
    seen = world.seen(claim.invocation_id)
    assert (seen.status, seen.claimed_by, seen.claim_epoch) == (InvocationStatus.AUTHORIZED, None, 1)
    assert (seen.lease_expires_at, seen.operation_deadline) == (None, None)
    again = claim_again(store, case_of(store, case.call, WRITE))
    assert isinstance(again, Claim)
    assert again.epoch == 2


def test_a_release_leaves_the_watermark_of_an_earlier_attempt(world: World, claim: Claim) -> None:
    store = world.store()
    store.commit_watermark(claim)
    assert store.commit_release(claim, Retry(1))
    assert world.seen(claim.invocation_id).effect_sent_at is not None


def test_a_release_counts_the_attempt_that_comes_next(world: World, case: Case, claim: Claim) -> None:
    store = world.store()
    assert store.commit_release(claim, Retry(2, 0.0, {"detail": "busy"}))
    again = taken(store, case.call, WRITE)
    assert (again.attempt_number, again.epoch) == (2, 2)


def test_only_the_present_claim_of_a_running_call_is_released(world: World, case: Case, claim: Claim) -> None:
    store = world.store()
    world.pass_lease(claim.invocation_id)
    successor = claimed(store, case.call, WRITE)
    assert not store.commit_release(claim, Retry(1))
    store.commit_result(concluded(successor))
    assert successor.claim is not None
    assert not store.commit_release(successor.claim, Retry(1))


def test_a_released_call_is_dispatched_after_its_wait(world: World, claim: Claim) -> None:
    world.store().commit_release(claim, Retry(1, 30.0))
    assert ("dispatch", claim.invocation_id) not in world.sweep()
    world.pass_dispatch(claim.invocation_id)
    assert ("dispatch", claim.invocation_id) in world.sweep()


def test_a_claim_with_another_epoch_of_authorization_is_its_own_affair(world: World, claim: Claim) -> None:
    """The fence compares what the claim was won with, not what anybody else has read since."""
    world.switch_tenant(on=True)
    assert world.store().commit_watermark(replace(claim, authz_epoch=claim.authz_epoch + 1)).held
