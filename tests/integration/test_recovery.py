"""What a second worker does with a call that a first one left: the recovery table over real rows.

A crash is an exception that nothing catches, raised by the injected probe at a named commit point; the first worker's
lease is then moved into the past, as time would. Real SIGKILLs are in the demo and in the crash matrix.
"""

from dataclasses import replace
from typing import Any

import pytest

from tests.effects import EffectServer
from tests.factories import Tenancy, approve, events_of
from tests.spec.requirements import gate
from toolsys import database, services
from toolsys.domain.calls import Disposition, Progress
from toolsys.domain.states import OutcomeStatus
from toolsys.models import Invocation, Tenant
from toolsys.ports import Runtime
from toolsys.store import SqlStore
from toolsys.tenancy import tenant_transaction


class Crash(BaseException):
    """The process died here."""


class CrashAt:
    def __init__(self, point: str) -> None:
        self.point = point

    def reached(self, point: str, tool_name: str) -> None:
        if point == self.point:
            raise Crash(point)


def crashing(runtime: Runtime, point: str) -> Runtime:
    store = runtime.store
    assert isinstance(store, SqlStore)
    return replace(runtime, store=replace(store, probe=CrashAt(point)))


def pass_lease(tenancy: Tenancy, disposition: Disposition) -> None:
    with tenant_transaction(tenancy.id):
        Invocation.objects.filter(pk=disposition.invocation_id).update(lease_expires_at="2020-01-01T00:00:00Z")


def held_write(tenancy: Tenancy, line: str = "x", **arguments: Any) -> Disposition:
    (held,) = tenancy.propose(("demo.external_write", {"line": line, **arguments}))
    approve(tenancy, held)
    return held


def crash_and_recover(tenancy: Tenancy, worker: Runtime, held: Disposition, point: str) -> Disposition:
    with pytest.raises(Crash):
        tenancy.work(crashing(worker, point), held)
    pass_lease(tenancy, held)
    (ended,) = tenancy.work(worker, held)
    return ended


@pytest.mark.parametrize("point", ["before_intent", "after_intent", "before_claim", "after_claim", "before_watermark"])
@gate("recovery.killed_before")
def test_before_the_watermark_nothing_was_sent_and_the_call_is_executed_once(
    writer: tuple[Tenancy, Runtime], effects: EffectServer, point: str
) -> None:
    tenancy, worker = writer
    held = held_write(tenancy)
    ended = crash_and_recover(tenancy, worker, held, point)
    assert (ended.outcome_status, effects.lines()) == (OutcomeStatus.SUCCEEDED, ["x"])


@pytest.mark.parametrize(("point", "lines"), [("after_watermark", []), ("before_result", ["x"])])
@gate("recovery.killed_after")
def test_after_the_watermark_a_non_idempotent_call_is_uncertain_and_never_sent_again(
    writer: tuple[Tenancy, Runtime], effects: EffectServer, point: str, lines: list[str]
) -> None:
    tenancy, worker = writer
    ended = crash_and_recover(tenancy, worker, held_write(tenancy), point)
    assert (ended.outcome_status, ended.reason_code) == (OutcomeStatus.UNCERTAIN, "tool.outcome_unknown")
    assert effects.lines() == lines


def test_after_the_result_is_recorded_a_second_worker_finds_it(
    writer: tuple[Tenancy, Runtime], effects: EffectServer
) -> None:
    tenancy, worker = writer
    held = held_write(tenancy)
    with pytest.raises(Crash):
        tenancy.work(crashing(worker, "after_result"), held)
    (again,) = tenancy.work(worker, held)
    assert (again.outcome_status, again.is_replay, effects.lines()) == (OutcomeStatus.SUCCEEDED, True, ["x"])


@pytest.mark.parametrize("point", ["after_claim", "before_result"])
def test_a_read_is_executed_again(acme: Tenancy, worker: Runtime, point: str) -> None:
    (proposed,) = acme.propose(("demo.echo", {"text": "x"}))
    ended = crash_and_recover(acme, worker, proposed, point)
    assert ended.outcome_status is OutcomeStatus.SUCCEEDED
    assert events_of(acme, proposed).count("tool.call.started") == 2


def test_a_live_lease_keeps_every_other_worker_away(acme: Tenancy, worker: Runtime) -> None:
    (proposed,) = acme.propose(("demo.echo", {"text": "x"}))
    with pytest.raises(Crash):
        acme.work(crashing(worker, "after_claim"), proposed)
    (second,) = acme.work(worker, proposed)
    assert second.state is Progress.IN_FLIGHT


def test_claims_are_bounded(acme: Tenancy, worker: Runtime) -> None:
    (proposed,) = acme.propose(("demo.echo", {"text": "x"}))
    for _ in range(5):
        with pytest.raises(Crash):
            acme.work(crashing(worker, "after_claim"), proposed)
        pass_lease(acme, proposed)
    (ended,) = acme.work(worker, proposed)
    assert (ended.outcome_status, ended.reason_code) == (OutcomeStatus.FAILED, "tool.claims_spent")


def test_a_denial_after_an_earlier_attempt_was_sent_is_uncertain(
    writer: tuple[Tenancy, Runtime], effects: EffectServer
) -> None:
    tenancy, worker = writer
    held = held_write(tenancy)
    with pytest.raises(Crash):
        tenancy.work(crashing(worker, "before_result"), held)
    pass_lease(tenancy, held)
    Tenant.objects.using("operator").filter(pk=tenancy.id).update(is_enabled=False)
    (ended,) = tenancy.work(worker, held)
    assert (ended.outcome_status, effects.lines()) == (OutcomeStatus.UNCERTAIN, ["x"])


def test_a_switch_turned_off_before_the_watermark_stops_the_call(
    writer: tuple[Tenancy, Runtime], effects: EffectServer
) -> None:
    """The fence reads the epoch again: facts read before the switch do not let the call out."""
    tenancy, worker = writer
    held = held_write(tenancy)

    class SwitchOff:
        def reached(self, point: str, tool_name: str) -> None:
            if point == "before_watermark":
                Tenant.objects.using("operator").filter(pk=tenancy.id).update(is_enabled=False)

    store = worker.store
    assert isinstance(store, SqlStore)
    (ended,) = tenancy.work(replace(worker, store=replace(store, probe=SwitchOff())), held)
    assert (ended.outcome_status, ended.reason_code) == (OutcomeStatus.DENIED, "policy.switch.off")
    assert effects.lines() == []


def test_a_run_cancelled_before_the_watermark_stops_the_call(
    writer: tuple[Tenancy, Runtime], effects: EffectServer
) -> None:
    tenancy, worker = writer
    held = held_write(tenancy)

    class Cancel:
        done = False

        def reached(self, point: str, tool_name: str) -> None:
            if point == "before_watermark" and not self.done:
                self.done = True
                services.end_run(tenant_id=tenancy.id, run_id=tenancy.run.id, cancel=True, runtime=tenancy.runtime)

    store = worker.store
    assert isinstance(store, SqlStore)
    (ended,) = tenancy.work(replace(worker, store=replace(store, probe=Cancel())), held)
    assert (ended.outcome_status, ended.reason_code) == (OutcomeStatus.FAILED, "tool.cancelled")
    assert effects.lines() == []


def test_a_worker_that_lost_its_claim_can_persist_nothing(acme: Tenancy, worker: Runtime) -> None:
    (proposed,) = acme.propose(("demo.echo", {"text": "x"}))

    class TakenOver:
        def reached(self, point: str, tool_name: str) -> None:
            if point == "before_result":
                pass_lease(acme, proposed)
                acme.work(worker, proposed)

    store = worker.store
    assert isinstance(store, SqlStore)
    (late,) = acme.work(replace(worker, store=replace(store, probe=TakenOver())), proposed)
    assert late.is_replay, "the late worker finds the other's result"
    assert events_of(acme, proposed).count("tool.call.completed") == 1


def test_a_late_result_of_an_older_claim_is_refused_while_the_new_one_runs(acme: Tenancy, worker: Runtime) -> None:
    """Status alone would let it in: the row is running again, under another claim."""
    (proposed,) = acme.propose(("demo.echo", {"text": "x"}))

    class TakenOver:
        done = False

        def reached(self, point: str, tool_name: str) -> None:
            if point == "before_result" and not self.done:
                self.done = True
                pass_lease(acme, proposed)
                with pytest.raises(Crash):
                    acme.work(crashing(worker, "after_claim"), proposed)

    store = worker.store
    assert isinstance(store, SqlStore)
    (late,) = acme.work(replace(worker, store=replace(store, probe=TakenOver())), proposed)
    assert late.state is Progress.IN_FLIGHT
    with tenant_transaction(acme.id):
        row = Invocation.objects.get(pk=proposed.invocation_id)
    assert (row.status, row.claim_epoch, row.completed_at) == ("running", 2, None)


def test_the_claim_statement_itself_refuses_a_live_lease(acme: Tenancy, worker: Runtime) -> None:
    """Asked with the present epoch, so that nothing but the lease stands in the way."""
    (proposed,) = acme.propose(("demo.echo", {"text": "x"}))
    with pytest.raises(Crash):
        acme.work(crashing(worker, "after_claim"), proposed)
    asked = (acme.id, proposed.invocation_id, 1, "another", 2.0, 1, acme.run.deadline_at, 5, 64, 8)
    statement = "SELECT toolsys_commit_claim(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, NULL)"
    assert database.from_json(database.call(statement, asked)[0][0]) == {"refused": "lost"}
    pass_lease(acme, proposed)
    assert database.from_json(database.call(statement, asked)[0][0])["epoch"] == 2


def test_a_write_that_times_out_after_the_watermark_is_uncertain(
    writer: tuple[Tenancy, Runtime], effects: EffectServer
) -> None:
    tenancy, worker = writer
    held = held_write(tenancy, hold=True)
    with tenant_transaction(tenancy.id):
        Invocation.objects.filter(pk=held.invocation_id).update(timeout_seconds=0.5)
    (ended,) = tenancy.work(worker, held)
    assert (ended.outcome_status, effects.lines()) == (OutcomeStatus.UNCERTAIN, ["x"])
