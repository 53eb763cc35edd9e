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
from django.db import connections
from django.utils import timezone

from tests.contract.store.cases import WRITE, call_of, case_of, claimed, concluded, held, intended
from tests.contract.store.sql_world import SqlWorld
from tests.factories import approver
from tests.spec.requirements import gate
from toolsys.decisions import SeatVote, lock_request, record_decision
from toolsys.domain.calls import Progress
from toolsys.domain.seats import Seat
from toolsys.domain.states import ApprovalStatus
from toolsys.domain.trust import TrustLevel
from toolsys.models import ApprovalRequest, Invocation, Run
from toolsys.ports import Fence
from toolsys.tenancy import tenant_transaction

WAIT_SECONDS = 10.0


class Beside:
    """Runs a commit on a thread of its own; `answer` is what it returned, or what it raised."""

    def __init__(self, commit: Callable[[], Any]) -> None:
        self._commit = commit
        self.answer: Any = None
        self._thread = threading.Thread(target=self._run)

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
    intended(store, call, WRITE)
    claim = claimed(store, call, WRITE).claim
    assert claim is not None
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
