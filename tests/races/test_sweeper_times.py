"""When a sweep comes: at the moment a dead worker's lease ends, and whatever else the scheduler is busy with."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connections
from django.utils import timezone

from tests.factories import Tenancy
from tests.integration.processes import eventually
from tests.integration.test_recovery import Crash, crashing
from tests.spec.requirements import gate
from toolsys import database, sweeper
from toolsys.models import Invocation
from toolsys.ports import Runtime
from toolsys.sweeper import Chore
from toolsys.tenancy import tenant_transaction

PATIENCE_SECONDS = 20.0
LOCKS = """SELECT 1 FROM pg_locks WHERE locktype = 'advisory'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
NEVER_SECONDS = 3_600.0


@contextmanager
def serving(sweep_seconds: float, *chores: Chore) -> Iterator[threading.Event]:
    """Sweep as the scheduler does, on a thread of its own, once whoever swept before has let go of the lock."""
    stopping = threading.Event()
    eventually(lambda: database.call(LOCKS, ()) == [], "nobody sweeps", PATIENCE_SECONDS)

    def serve() -> None:
        try:
            sweeper.serve(sweep_seconds, NEVER_SECONDS, stopping, chores)
        finally:
            database.end_session()
            connections.close_all()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield stopping
    finally:
        stopping.set()
        thread.join(PATIENCE_SECONDS)


@gate("recovery.bound")
def test_a_lease_that_ends_is_swept_at_once_and_not_a_sweep_later(
    acme: Tenancy, worker: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    (call,) = acme.propose(("demo.echo", {"text": "x"}))
    with pytest.raises(Crash):
        acme.work(crashing(worker, "after_claim"), call)
    with tenant_transaction(acme.id):
        Invocation.objects.filter(pk=call.invocation_id).update(
            lease_expires_at=timezone.now() + timedelta(seconds=0.5), dispatch_after=None
        )
    named, sweep = threading.Event(), sweeper.sweep

    def watched(grace_seconds: float) -> list[sweeper.Due]:
        found = sweep(grace_seconds)
        if any(str(due.id) == str(call.invocation_id) for due in found):
            named.set()
        return found

    monkeypatch.setattr(sweeper, "sweep", watched)
    with serving(NEVER_SECONDS):
        assert named.wait(PATIENCE_SECONDS), "the next sweep is an hour away"


@gate("recovery.bound")
def test_a_lease_that_ends_while_the_scheduler_sweeps_is_swept_next(
    acme: Tenancy, worker: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was live for the sweep and is past for who asks what comes next: neither may overlook it."""
    (call,) = acme.propose(("demo.echo", {"text": "x"}))
    with pytest.raises(Crash):
        acme.work(crashing(worker, "after_claim"), call)
    named, sweep = threading.Event(), sweeper.sweep

    def ending(grace_seconds: float) -> list[sweeper.Due]:
        found = sweep(grace_seconds)
        if any(str(due.id) == str(call.invocation_id) for due in found):
            named.set()
        elif (left := _left(acme, call.invocation_id)) > 0:
            stopping.wait(left + 0.1)
        return found

    stopping = threading.Event()
    monkeypatch.setattr(sweeper, "sweep", ending)
    with tenant_transaction(acme.id):
        Invocation.objects.filter(pk=call.invocation_id).update(
            lease_expires_at=timezone.now() + timedelta(seconds=1.5), dispatch_after=None
        )
    with serving(NEVER_SECONDS):
        assert named.wait(PATIENCE_SECONDS), "the next sweep is an hour away"


def _left(tenancy: Tenancy, invocation_id: UUID) -> float:
    with tenant_transaction(tenancy.id):
        end = Invocation.objects.get(pk=invocation_id).lease_expires_at
    return (end - timezone.now()).total_seconds() if end is not None else 0.0


@gate("recovery.bound")
def test_no_sweep_waits_for_a_chore(database: None, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, leave, swept = threading.Event(), threading.Event(), threading.Event()

    def chore() -> None:
        begun.set()
        leave.wait(PATIENCE_SECONDS)

    def sweep(_grace_seconds: float) -> list[sweeper.Due]:
        if begun.is_set():
            swept.set()
        return []

    monkeypatch.setattr(sweeper, "sweep", sweep)
    with serving(0.02, Chore(NEVER_SECONDS, chore)):
        try:
            assert begun.wait(PATIENCE_SECONDS)
            assert swept.wait(PATIENCE_SECONDS / 2), "it waits for the chore"
        finally:
            leave.set()
