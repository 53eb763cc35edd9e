"""Parallel groups at the store: written once, capped by their own number, and ended as one step."""

from dataclasses import replace
from uuid import UUID

from tests.contract.store.cases import call_of, case_of, claim_again, claimed, concluded, intended
from tests.contract.store.worlds import LIMITS, World
from tests.spec.requirements import gate
from toolsys.domain.calls import Claim, Disposition, Progress, ProposedCall
from toolsys.ids import uuid7
from toolsys.ports import Store

ROOMY = replace(LIMITS, claim_cap_per_tenant=20, parallel_cap=2)


def group_of(world: World, store: Store, count: int, number: int = 1) -> list[ProposedCall]:
    """Persist the intents of one group."""
    group = uuid7()
    calls = [
        call_of(
            world, number=number, call_count=count, group=group, call_id=f"call_{n}", call_index=n,
            arguments={"line": str(n)},
        )
        for n in range(count)
    ]  # fmt: skip
    for call in calls:
        intended(store, call)
    return calls


def group_in(store: Store, call: ProposedCall) -> UUID | None:
    step = store.read_facts(call).step
    assert step is not None
    return step.parallel_group


@gate("store.contract")
@gate("parallel.cap")
def test_a_group_runs_as_many_as_its_cap_and_a_result_frees_a_place(world: World) -> None:
    store = world.store(ROOMY)
    calls = group_of(world, store, 3)
    first = claimed(store, calls[0])
    claimed(store, calls[1])
    last = case_of(store, calls[2])
    assert claim_again(store, last) == Disposition(calls[2].invocation_id, Progress.IN_FLIGHT)
    store.commit_result(concluded(first))
    assert isinstance(claim_again(store, last), Claim)


@gate("parallel.cap")
def test_a_passed_lease_frees_a_place_of_its_group(world: World) -> None:
    store = world.store(ROOMY)
    calls = group_of(world, store, 3)
    claimed(store, calls[0])
    claimed(store, calls[1])
    world.pass_lease(calls[0].invocation_id)
    assert isinstance(claim_again(store, case_of(store, calls[2])), Claim)


@gate("parallel.cap")
def test_another_group_and_a_call_outside_of_any_are_not_counted(world: World) -> None:
    store = world.store(ROOMY)
    first, second = group_of(world, store, 2), group_of(world, store, 2, number=2)
    alone = call_of(world, number=3)
    intended(store, alone)
    for call in (*first, *second, alone):
        assert isinstance(claim_again(store, case_of(store, call)), Claim), call


@gate("store.contract")
def test_the_group_is_what_the_step_was_written_with(world: World) -> None:
    store = world.store(ROOMY)
    calls = group_of(world, store, 2)
    other = replace(calls[1], step=replace(calls[1].step, parallel_group=uuid7()))
    assert group_in(store, calls[0]) == group_in(store, other) == calls[0].step.parallel_group


@gate("parallel.siblings")
def test_a_group_ends_with_its_last_call_in_whatever_order(world: World) -> None:
    store = world.store(ROOMY)
    calls = group_of(world, store, 2)
    for call, is_over in ((calls[1], False), (calls[0], True)):
        store.commit_result(concluded(claimed(store, call)))
        assert world.seen(call.invocation_id).is_step_closed is is_over
