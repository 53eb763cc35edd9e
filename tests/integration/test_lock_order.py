"""Who locks several rows locks the run first, then the approval, then the call: nobody waits in a circle.

One side is held open in a transaction of its own; the other is known to wait when PostgreSQL says so.
"""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import connections, transaction
from django.utils import timezone

from approvals import policy_services
from mcpcatalog.models import SessionServer
from tests.contract.store.cases import WRITE, begun, call_of, case_of, claim_again, claimed, concluded, held, intended
from tests.contract.store.sql_world import SqlWorld
from tests.contract.store.worlds import LIMITS
from tests.factories import approver, make_tenancy
from tests.spec.requirements import gate
from toolsys.decisions import SeatVote, lock_request, record_decision
from toolsys.domain.calls import Claim, Disposition, Progress
from toolsys.domain.seats import Seat
from toolsys.domain.states import ApprovalStatus
from toolsys.domain.trust import TrustLevel
from toolsys.models import Agent, ApprovalRequest, Invocation, Membership, PlatformState, Run
from toolsys.ports import Fence
from toolsys.tenancy import tenant_transaction

WAIT_SECONDS = 10.0


class Beside:
    """Runs a commit on a thread of its own; `answer` is what it returned, or what it raised."""

    def __init__(self, commit: Callable[[], Any]) -> None:
        self._commit = commit
        self.answer: Any = None
        self._thread = threading.Thread(target=self._run)

    def at_once(self) -> Any:
        """Start it, and return its answer; it may wait for nobody."""
        self._thread.start()
        return self.joined()

    def until_it_waits(self, *, waiting: int = 1) -> None:
        """Start it, and return once so many connections wait for a lock."""
        self._thread.start()
        until = time.monotonic() + WAIT_SECONDS
        while self._waiting() < waiting:
            assert self._thread.is_alive(), f"it did not wait: {self.answer!r}"
            assert time.monotonic() < until, "nobody waits for a lock"

    def joined(self) -> Any:
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()
        return self.answer

    def _waiting(self) -> int:
        with psycopg.connect(os.environ["DATABASE_OWNER_URL"]) as watcher:
            found = watcher.execute(
                "SELECT count(DISTINCT pid) FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
                " WHERE NOT l.granted AND a.datname = current_database()"
            ).fetchone()
        return int(found[0]) if found else 0

    def _run(self) -> None:
        try:
            self.answer = self._commit()
        except Exception as error:
            self.answer = error
        finally:
            connections.close_all()


class Counting:
    """A probe that keeps what it is told."""

    def __init__(self) -> None:
        self.points: list[str] = []

    def reached(self, point: str, tool_name: str) -> None:
        self.points.append(point)


@pytest.fixture
def world(database: None) -> SqlWorld:
    return SqlWorld()


def lock_run(world: SqlWorld) -> None:
    Run.objects.select_for_update().get(pk=world.run_id)


def mark(row_id: UUID) -> None:
    """Take the lock of a call, as a cancellation does that has locked the run before."""
    Invocation.objects.filter(pk=row_id).update(cancel_requested_at=timezone.now())


@gate("store.lock_order")
def test_a_cancellation_and_a_watermark_do_not_wait_in_a_circle(world: SqlWorld) -> None:
    """Asked once: the store repeats a watermark that the database has broken off, which would hide a circle."""
    asked = Counting()
    store, call = replace(world.store(), probe=asked), call_of(world, WRITE)
    claim = begun(store, call, WRITE)
    beside = Beside(lambda: store.commit_watermark(claim))
    with tenant_transaction(world.tenant_id):
        lock_run(world)
        beside.until_it_waits()
        mark(call.invocation_id)
    assert beside.joined() == Fence(held=False, why="cancelled")
    assert asked.points.count("before_watermark") == 1


@gate("store.lock_order")
def test_a_cancellation_and_a_result_do_not_wait_in_a_circle(world: SqlWorld) -> None:
    """The result lowers what the run was told, so it changes the run as well."""
    store, call = world.store(), call_of(world)
    intended(store, call)
    case = concluded(claimed(store, call), trust=TrustLevel.EXTERNAL_UNTRUSTED)
    beside = Beside(lambda: store.commit_result(case))
    with tenant_transaction(world.tenant_id):
        lock_run(world)
        beside.until_it_waits()
        mark(call.invocation_id)
    assert beside.joined().is_settled


@gate("store.lock_order")
def test_a_cancellation_and_an_approved_intent_do_not_wait_in_a_circle(world: SqlWorld) -> None:
    store, call = world.store(), call_of(world, WRITE)
    world.decide(held(store, call), is_approval=True)
    case = case_of(store, call, WRITE)
    beside = Beside(lambda: store.commit_intent(case))
    with tenant_transaction(world.tenant_id):
        lock_run(world)
        beside.until_it_waits()
        mark(call.invocation_id)
    assert beside.joined().state is Progress.STALE


@gate("store.lock_order")
def test_a_decision_and_the_end_of_a_held_call_do_not_wait_in_a_circle(world: SqlWorld) -> None:
    store, call = world.store(), call_of(world, WRITE)
    row_id = held(store, call)
    case = case_of(store, call, WRITE)
    beside = Beside(lambda: store.commit_refusal(case, "policy.scope.missing", ""))
    with tenant_transaction(world.tenant_id):
        request = lock_request(ApprovalRequest.objects.get(invocation_id=row_id).pk).row
        beside.until_it_waits()
        person = approver(world.tenant_id)
        record_decision(request, ApprovalStatus.APPROVED, user=person, votes=[SeatVote(person.pk, Seat.EXPERT)])
    assert beside.joined().is_settled


@gate("store.lock_order")
def test_a_cancellation_and_a_heartbeat_do_not_wait_in_a_circle(world: SqlWorld) -> None:
    """Each holds several calls, in its own order. What is held by another is renewed at the next beat."""
    store = world.store()
    claims = [begun(store, call_of(world, number=number)) for number in (1, 2)]
    first, second = (claim.invocation_id for claim in claims)
    with tenant_transaction(world.tenant_id):
        lock_run(world)
        mark(second)
        assert Beside(lambda: world.renew(claims)).at_once() == {first}
        mark(first)
    assert world.renew(claims) == {first, second}


@gate("store.lock_order")
def test_a_wait_for_the_run_counts_as_time_to_use_an_approval(world: SqlWorld) -> None:
    store, call = world.store(), call_of(world, WRITE)
    row_id = held(store, call)
    world.decide(row_id, is_approval=True)
    case = case_of(store, call, WRITE)
    beside = Beside(lambda: store.commit_intent(case))
    with tenant_transaction(world.tenant_id):
        lock_run(world)
        beside.until_it_waits()
        # As if the wait had been a day longer: the row is not the one that is waited for.
        with connections["operator"].cursor() as cursor:
            cursor.execute(
                "UPDATE approval_requests SET consume_by = clock_timestamp() WHERE invocation_id = %s", [row_id]
            )
    assert beside.joined().state is Progress.STALE


@gate("store.lock_order", "wait.bounded")
@pytest.mark.parametrize("over", ["lease_expires_at", "operation_deadline"])
def test_a_fence_that_waited_until_its_claim_was_over_does_not_hold(world: SqlWorld, over: str) -> None:
    """TS "Failure modes": a stalled guard or watermark lets nothing past. The transaction's own time stood still."""
    store, call = world.store(), call_of(world, WRITE)
    claim = begun(store, call, WRITE)
    beside = Beside(lambda: store.commit_watermark(claim))
    with tenant_transaction(world.tenant_id):
        lock_run(world)
        beside.until_it_waits()
        with connections["operator"].cursor() as cursor:
            cursor.execute(
                f"UPDATE tool_invocations SET {over} = clock_timestamp() WHERE id = %s", [claim.invocation_id]
            )
    assert beside.joined() == Fence(held=False, why="lost")
    assert world.seen(claim.invocation_id).effect_sent_at is None


CHANGES: dict[str, Callable[[SqlWorld], object]] = {
    "agent": lambda world: in_tenant(world, lambda: Agent.objects.update(is_enabled=False)),
    "permission": lambda world: policy_services.permit_tools(tenant_id=world.tenant_id, tools="x.*", is_enabled=False),
    "tenant": lambda world: policy_services.set_tenant_switch(
        world.tenant_id, is_enabled=False, user=approver_of(world)
    ),
    "platform": lambda world: world.switch_platform(on=False),
    "person": lambda world: deactivate(approver_of(world)),
    "refused login": lambda world: in_tenant(world, lambda: give_up_a_server(world)),
}


def in_tenant(world: SqlWorld, change: Callable[[], object]) -> None:
    with tenant_transaction(world.tenant_id):
        change()


def give_up_a_server(world: SqlWorld) -> None:
    SessionServer.objects.create(
        tenant_id=world.tenant_id, session_id=Run.objects.get(pk=world.run_id).session_id, server_id="crm",
        unavailable_at=timezone.now(), reason_code="tool.server_unauthorized",
    )  # fmt: skip


def approver_of(world: SqlWorld) -> Any:
    return approver(world.tenant_id)


def deactivate(person: Any) -> None:
    person.is_active = False
    person.save(update_fields=["is_active"])


@gate("store.lock_order", "policy.switches")
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_waits_for_a_watermark_goes_before_the_next_one(world: SqlWorld, change: str) -> None:
    """Under load one watermark follows the other, and the tenant's row is never free: a switch would wait for ever."""
    store = world.store()
    claims = [begun(store, call_of(world, number=number)) for number in (1, 2)]
    made = Beside(partial(CHANGES[change], world))
    later = Beside(lambda: store.commit_watermark(claims[1]))
    try:
        with tenant_transaction(world.tenant_id):
            assert store.commit_watermark(claims[0]).held
            made.until_it_waits()
            later.until_it_waits(waiting=2)
        assert not isinstance(made.joined(), Exception)
        assert later.joined() == Fence(held=False, why="authz_epoch")
    finally:
        world.switch_platform(on=True)


def all_tenants_at_once(change: Callable[[], object], lowest: str, highest: str) -> None:
    """While somebody holds the lowest tenant, who changes several waits for it and holds none after it."""
    beside = Beside(change)
    with transaction.atomic(using="operator"), connections["operator"].cursor() as cursor:
        cursor.execute("SELECT 1 FROM tenants WHERE id = %s FOR NO KEY UPDATE", [lowest])
        beside.until_it_waits()
        cursor.execute("SELECT 1 FROM tenants WHERE id = %s FOR NO KEY UPDATE NOWAIT", [highest])
    assert beside.joined() is None


@gate("store.lock_order")
@pytest.mark.parametrize("change", ["platform", "person"])
def test_who_changes_several_tenants_locks_them_in_order(database: None, change: str) -> None:
    """The later one was made first, so that no order of the table itself helps."""
    highest, lowest = make_tenancy("zulu").id, make_tenancy("abel").id
    person = approver(highest)
    with tenant_transaction(lowest):
        Membership.objects.create(tenant_id=lowest, user=person, role=Seat.EXPERT.role)

    def switch_off() -> None:
        with transaction.atomic(using="operator"):
            PlatformState.objects.using("operator").update(is_execution_enabled=False)
            transaction.set_rollback(True, using="operator")

    all_tenants_at_once(switch_off if change == "platform" else partial(deactivate, person), lowest, highest)


@gate("parallel.cap")
def test_two_who_count_at_once_pass_the_cap_and_the_next_one_counts_both(world: SqlWorld) -> None:
    """Decision record 20: a cap is a share of the workers, not a guard of effects; what passes it does not add up."""
    store = world.store(replace(LIMITS, claim_cap_per_tenant=1))
    cases = [intended(store, call_of(world, number=number)) for number in (1, 2, 3)]
    with tenant_transaction(world.tenant_id):
        first = claim_again(store, cases[0])
        second = Beside(lambda: claim_again(store, cases[1])).at_once()
    assert (type(first), type(second)) == (Claim, Claim)
    assert claim_again(store, cases[2]) == Disposition(cases[2].call.invocation_id, Progress.IN_FLIGHT)


@gate("store.lock_order")
def test_two_holds_of_one_run_do_not_wait_in_a_circle(world: SqlWorld) -> None:
    """Both change what the run waits for; each waits for its turn before it has anything that the other needs."""
    store = world.store()
    cases = [case_of(store, call_of(world, WRITE, number=number), WRITE) for number in (1, 2)]
    first, second = (Beside(partial(store.commit_hold, case)) for case in cases)
    with tenant_transaction(world.tenant_id):
        list(Run.objects.raw("SELECT * FROM runs WHERE id = %s FOR SHARE", [world.run_id]))
        first.until_it_waits()
        second.until_it_waits(waiting=2)
    assert [first.joined().state, second.joined().state] == [Progress.HELD, Progress.HELD]
