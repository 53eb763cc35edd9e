"""What a sweep names: passed leases, what was never picked up, decided requests, and steps with a call missing."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from tests.contract.store.cases import WRITE, call_of, case_of, claimed, concluded, held, intended
from tests.contract.store.sql_world import SqlWorld
from tests.contract.store.worlds import World
from tests.spec.requirements import gate
from toolsys import database
from toolsys.domain.calls import ProposedCall
from toolsys.ids import uuid7
from toolsys.ports import Store

NEVER = datetime.min.replace(tzinfo=UTC)


@gate("store.contract")
def test_a_running_call_is_named_once_its_lease_has_passed(world: World) -> None:
    store, call = world.store(), call_of(world)
    intended(store, call)
    claimed(store, call)
    assert world.sweep() == set()
    world.pass_lease(call.invocation_id)
    assert world.sweep() == {("lease", call.invocation_id)}


def test_a_lost_call_is_named_at_once_and_then_waits_until_somebody_claims_it(world: World) -> None:
    """Nobody may be there to hear for an hour; the next claim starts anew, however long the last one was lost."""
    store, call = world.store(), call_of(world)
    intended(store, call)
    world.pass_dispatch(call.invocation_id)
    assert world.sweep() == {("dispatch", call.invocation_id)}, "and so waits for its next ring when it is claimed"
    for _ in range(2):
        claimed(store, call)
        world.pass_lease(call.invocation_id)
        assert world.sweep() == {("lease", call.invocation_id)}
        assert world.sweep() == set()
        assert (world.seen(call.invocation_id).dispatch_after or NEVER) > NEVER
    world.pass_dispatch(call.invocation_id)
    assert world.sweep() == {("lease", call.invocation_id)}


def test_a_suspended_call_is_not_named(world: World) -> None:
    store, call = world.store(), call_of(world)
    intended(store, call)
    claimed(store, call)
    world.pass_lease(call.invocation_id)
    world.suspend(call.invocation_id)
    assert world.sweep() == set()


def test_an_authorized_call_is_named_when_it_is_due_and_then_waits_again(world: World) -> None:
    store, call = world.store(), call_of(world)
    intended(store, call)
    assert world.sweep() == set()
    world.pass_dispatch(call.invocation_id)
    assert world.sweep() == {("dispatch", call.invocation_id)}
    assert world.sweep() == set()


def test_a_held_call_is_named_once_it_is_decided(world: World) -> None:
    store, call = world.store(), call_of(world, WRITE)
    row_id = held(store, call)
    world.pass_dispatch(row_id)
    assert world.sweep() == set()
    world.decide(row_id, is_approval=False)
    assert world.sweep() == {("dispatch", row_id)}


def test_a_held_call_is_named_once_its_request_has_expired(world: World) -> None:
    store, call = world.store(), call_of(world, WRITE)
    row_id = held(store, call)
    world.pass_dispatch(row_id)
    world.pass_expiry(row_id)
    assert world.sweep() == {("dispatch", row_id)}


def test_a_step_whose_next_call_was_never_written_is_named(world: World) -> None:
    """Settled k and no k+1: the worker died between two calls of a step."""
    store, call = world.store(), call_of(world, call_count=2)
    intended(store, call)
    store.commit_result(concluded(claimed(store, call)))
    assert world.sweep() == set(), "whoever settled it may still be at work"
    world.age_step(call.invocation_id)
    step = store.read_facts(call).step
    assert step is not None
    assert world.sweep() == {("step", step.id)}


def between_two_calls(world: World, number: int = 1) -> tuple[Store, ProposedCall, UUID]:
    """Have a step of three calls whose first has ended a day ago, and nobody begun the second."""
    store, call = world.store(), call_of(world, call_count=3, number=number)
    intended(store, call)
    store.commit_result(concluded(claimed(store, call)))
    world.age_step(call.invocation_id)
    step = store.read_facts(call).step
    assert step is not None
    return store, call, step.id


@gate("sweep.backoff")
def test_a_step_that_nobody_goes_on_with_is_named_less_and_less_often(world: World) -> None:
    """As a lost call is: its body may be gone, and what waits behind it must be named too."""
    _, call, step_id = between_two_calls(world)
    assert world.sweep() == {("step", step_id)}
    assert world.sweep() == set()
    world.age_ring(call.invocation_id, 50.0)
    assert world.sweep() == set(), "due for a day, it waits a minute"
    world.age_ring(call.invocation_id, 11.0)
    assert world.sweep() == {("step", step_id)}


@gate("sweep.backoff")
@pytest.mark.usefixtures("database")
def test_steps_that_nobody_can_go_on_with_hide_no_other() -> None:
    """One place in each sweep, and older steps than this one that are named for ever."""
    world = SqlWorld()
    database.call("SELECT * FROM toolsys_sweep(500, 0)", ())
    made = [between_two_calls(world, number) for number in (1, 2, 3)]
    found = [database.call("SELECT kind, id FROM toolsys_sweep(1, 5)", ()) for _ in made]
    # Beside them may stand a lease that another test has left in these tables and that has passed since.
    assert [[row for row in each if row[0] == "step"] for each in found] == [[("step", step)] for _, _, step in made]


@gate("sweep.backoff")
def test_a_step_that_was_gone_on_with_is_named_at_once_when_the_next_worker_dies(world: World) -> None:
    store, call, step_id = between_two_calls(world)
    assert world.sweep() == {("step", step_id)}
    second = replace(call, call_id="call_1", call_index=1, invocation_id=uuid7())
    intended(store, second)
    store.commit_result(concluded(claimed(store, second)))
    assert world.sweep() == set(), "whoever settled it may still be at work"
    world.age_step(call.invocation_id, 10.0)
    world.age_ring(call.invocation_id, 11.0)
    assert world.sweep() == {("step", step_id)}


def test_a_step_with_an_open_call_is_not_named(world: World) -> None:
    store, call = world.store(), call_of(world, call_count=2)
    intended(store, call)
    world.age_step(call.invocation_id)
    assert world.sweep() == set()


def test_what_has_ended_is_not_named(world: World) -> None:
    store, call = world.store(), call_of(world)
    intended(store, call)
    store.commit_result(concluded(claimed(store, call)))
    world.age_step(call.invocation_id)
    assert world.sweep() == set()


def test_a_held_call_whose_run_is_cancelled_is_named(world: World) -> None:
    store, call = world.store(), call_of(world, WRITE)
    row_id = held(store, call)
    world.cancel_run()
    assert world.sweep() == {("dispatch", row_id)}


def test_a_cancelled_run_names_its_open_calls(world: World) -> None:
    store, call = world.store(), call_of(world)
    intended(store, call)
    world.cancel_run()
    assert world.sweep() == {("dispatch", call.invocation_id)}
    facts = store.read_facts(call)
    assert (facts.run.is_cancelled, case_of(store, call).row) == (True, facts.invocation)
    assert facts.invocation is not None
    assert facts.invocation.cancel_requested_at is not None
