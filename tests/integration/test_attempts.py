"""Further attempts after known failures, what a draining worker gives back, and writes that cannot be recorded."""

from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DataError, OperationalError

from config.management.commands.demo_effects import Handler
from tests.effects import EffectServer
from tests.factories import Tenancy, approve, events_of
from tests.integration.test_recovery import Crash, crashing, pass_lease
from tests.races.moments import OwnWorker, at
from tests.scripted import Scripted, failing
from tests.spec.requirements import gate
from tests.workers import WorkerRuntime
from toolsys import database, queue, services, store
from toolsys.builtin.demo import DemoExternalWrite
from toolsys.domain.calls import Disposition, Progress
from toolsys.domain.results import TextPart, ToolFailureKind, ToolResult
from toolsys.domain.spec import IdempotencyClass
from toolsys.domain.states import OutcomeStatus
from toolsys.models import Invocation, PlatformState, Run
from toolsys.ports import NotAvailable, Runtime
from toolsys.store import SqlStore
from toolsys.tenancy import tenant_transaction

DONE = ToolResult(ok=True, content=(TextPart(text="x"),), structured={"text": "x"})
BUSY = failing(ToolFailureKind.UPSTREAM_ERROR, "tool.rate_limited")
AWAY = NotAvailable("tool.server_unreachable")


def row_of(tenancy: Tenancy, call: Disposition) -> Invocation:
    with tenant_transaction(tenancy.id):
        return Invocation.objects.get(pk=call.invocation_id)


def approved_write(tenancy: Tenancy) -> Disposition:
    (held,) = tenancy.propose(("demo.external_write", {"line": "x"}))
    approve(tenancy, held)
    return held


@gate("attempts.bounded")
def test_a_read_that_was_asked_to_slow_down_is_tried_again_with_the_same_key(acme: Tenancy, worker: Runtime) -> None:
    tool = Scripted.echo(BUSY, BUSY, DONE)
    runtime = tool.installed_in(worker)
    (call,) = acme.propose(("demo.echo", {"text": "x"}))
    assert [acme.work_later(runtime, call).state for _ in range(2)] == [Progress.IN_FLIGHT] * 2
    waiting = row_of(acme, call)
    assert (waiting.status, waiting.attempt_number, waiting.claimed_by) == ("authorized", 3, None)
    assert waiting.error == {"detail": "attempt 2: tool.rate_limited"}
    ended = acme.work_later(runtime, call)
    assert ended.outcome_status is OutcomeStatus.SUCCEEDED
    assert len({context.idempotency_key for _, context in tool.sent}) == 1
    assert [context.attempt_number for _, context in tool.sent] == [1, 2, 3]
    assert events_of(acme, call).count("tool.call.started") == 3
    assert row_of(acme, call).error is None


@gate("attempts.bounded")
def test_attempts_end_with_the_failure_itself(acme: Tenancy, worker: Runtime) -> None:
    tool = Scripted.echo(BUSY)
    (call,) = acme.propose(("demo.echo", {"text": "x"}))
    found = [acme.work_later(tool.installed_in(worker), call) for _ in range(3)]
    assert (found[-1].outcome_status, found[-1].reason_code) == (OutcomeStatus.FAILED, "tool.rate_limited")
    assert len(tool.sent) == 3


@gate("attempts.bounded")
def test_the_wait_grows_and_is_never_shorter_than_asked(acme: Tenancy, worker: Runtime) -> None:
    tool = Scripted.echo(failing(ToolFailureKind.UPSTREAM_ERROR, "tool.rate_limited", 7.0), BUSY)
    (call,) = acme.propose(("demo.echo", {"text": "x"}))
    waits = []
    for _ in range(2):
        acme.work_later(tool.installed_in(worker), call)
        with tenant_transaction(acme.id):
            (left,) = Invocation.objects.filter(pk=call.invocation_id).values_list(database_wait(), flat=True)
        waits.append(left.total_seconds())
    assert 6 < waits[0] <= 7
    assert 0.5 < waits[1] <= 1


def database_wait() -> Any:
    from django.db.models import F

    return F("dispatch_after") - database.now()


@gate("attempts.bounded")
def test_who_asks_for_too_long_a_wait_is_taken_at_their_word(acme: Tenancy, worker: Runtime) -> None:
    tool = Scripted.echo(failing(ToolFailureKind.UPSTREAM_ERROR, "tool.rate_limited", 3_600.0))
    (call,) = acme.propose(("demo.echo", {"text": "x"}))
    (ended,) = acme.work(tool.installed_in(worker), call)
    assert (ended.reason_code, len(tool.sent)) == ("tool.rate_limited", 1)


@gate("attempts.class")
def test_a_non_idempotent_call_is_never_sent_twice(acme: Tenancy, worker: Runtime) -> None:
    tool = Scripted.write(BUSY)
    held = approved_write(acme)
    (ended,) = acme.work(tool.installed_in(worker), held)
    assert (ended.reason_code, len(tool.sent)) == ("tool.rate_limited", 1)


@gate("attempts.class")
def test_what_could_not_be_prepared_was_not_sent_and_may_be_tried_again(acme: Tenancy, worker: Runtime) -> None:
    tool = Scripted.write(DONE, prepared=[AWAY, None])
    runtime = tool.installed_in(worker)
    held = approved_write(acme)
    assert acme.work(runtime, held)[0].state is Progress.IN_FLIGHT
    assert (row_of(acme, held).effect_sent_at, tool.sent) == (None, [])
    ended = acme.work_later(runtime, held)
    assert (ended.outcome_status, len(tool.sent)) == (OutcomeStatus.SUCCEEDED, 1)


@gate("attempts.bounded")
def test_whatever_a_preparation_raises_was_not_sent(acme: Tenancy, worker: Runtime) -> None:
    tool = Scripted.write(DONE, prepared=[ValueError("s3cret"), SystemExit(3), None])
    runtime = tool.installed_in(worker)
    held = approved_write(acme)
    assert [acme.work(runtime, held)[0].state, acme.work_later(runtime, held).state] == [Progress.IN_FLIGHT] * 2
    waiting = row_of(acme, held)
    assert (waiting.status, waiting.effect_sent_at, tool.sent) == ("authorized", None, [])
    assert waiting.error == {"detail": "attempt 2: tool.server_unreachable"}
    ended = acme.work_later(runtime, held)
    assert (ended.outcome_status, len(tool.sent)) == (OutcomeStatus.SUCCEEDED, 1)


@gate("attempts.bounded")
def test_ringing_again_and_again_does_not_shorten_the_wait(acme: Tenancy, worker: Runtime) -> None:
    tool = Scripted.echo(failing(ToolFailureKind.UPSTREAM_ERROR, "tool.rate_limited", 20.0), DONE)
    (call,) = acme.propose(("demo.echo", {"text": "x"}))
    assert [acme.work(tool.installed_in(worker), call)[0].state for _ in range(3)] == [Progress.IN_FLIGHT] * 3
    assert (len(tool.sent), row_of(acme, call).claim_epoch) == (1, 1)
    assert acme.work_later(tool.installed_in(worker), call).outcome_status is OutcomeStatus.SUCCEEDED


def keyed(*answers: ToolResult) -> Scripted:
    """A write whose remote side knows the key."""
    declared = {"idempotency": IdempotencyClass.CONDITIONALLY_IDEMPOTENT, "passes_idempotency_key": True}
    return Scripted(DemoExternalWrite.spec.model_copy(update=declared), *answers)


@gate("attempts.class")
@pytest.mark.parametrize("kind", [ToolFailureKind.TIMEOUT, ToolFailureKind.TRANSPORT, ToolFailureKind.INTERNAL])
def test_an_unanswered_write_is_replayed_where_the_remote_side_knows_the_key_and_then_uncertain(
    acme: Tenancy, worker: Runtime, kind: ToolFailureKind
) -> None:
    tool = keyed(failing(kind, f"tool.{kind}"))
    (held,) = services.propose_step(
        acme.submission(("demo.external_write", {"line": "x"})), tool.installed_in(acme.runtime)
    )
    approve(acme, held)
    runtime = tool.installed_in(worker)
    found = [acme.work_later(runtime, held) for _ in range(3)]
    assert [each.state for each in found] == [Progress.IN_FLIGHT, Progress.IN_FLIGHT, Progress.SETTLED]
    assert found[-1].outcome_status is OutcomeStatus.UNCERTAIN
    assert len({context.idempotency_key for _, context in tool.sent}) == 1


@gate("attempts.class")
@pytest.mark.parametrize("code", ["tool.server_unauthorized", "tool.withdrawn"])
def test_what_time_does_not_mend_is_not_tried_again(acme: Tenancy, worker: Runtime, code: str) -> None:
    tool = Scripted.echo(DONE, prepared=[NotAvailable(code)])
    (call,) = acme.propose(("demo.echo", {"text": "x"}))
    (ended,) = acme.work(tool.installed_in(worker), call)
    assert (ended.outcome_status, ended.reason_code) == (OutcomeStatus.UNAVAILABLE, code)


def rings_for(tenancy: Tenancy, call: Disposition) -> int:
    return queue.call_queue().job_ids.count(queue.bell_id("call", tenancy.id, call.invocation_id, 0))


@gate("attempts.bounded")
@pytest.mark.parametrize("wait", [0.0, 20.0])
def test_who_gives_a_call_back_rings_where_the_next_attempt_waits_for_nothing(
    acme: Tenancy, worker: Runtime, wait: float
) -> None:
    tool = Scripted.echo(failing(ToolFailureKind.UPSTREAM_ERROR, "tool.rate_limited", wait), DONE)
    (call,) = acme.propose(("demo.echo", {"text": "x"}))
    before, limits = rings_for(acme, call), replace(worker.limits, retry_base_seconds=0.0)
    (given,) = acme.work(replace(tool.installed_in(worker), limits=limits), call)
    due = (Progress.RELEASED, 1) if wait == 0 else (Progress.IN_FLIGHT, 0)
    assert (given.state, rings_for(acme, call) - before) == due


@gate("attempts.bounded")
def test_a_call_of_a_group_that_is_given_back_is_rung_for_too(acme: Tenancy, worker: Runtime) -> None:
    tool = Scripted.echo(failing(ToolFailureKind.UPSTREAM_ERROR, "tool.rate_limited", 0.0), DONE)
    begun = acme.propose(*(("demo.echo", {"text": str(n)}) for n in range(3)))
    before, limits = rings_for(acme, begun[1]), replace(worker.limits, retry_base_seconds=0.0)
    (given,) = acme.work(replace(tool.installed_in(worker), limits=limits), begun[1])
    assert (given.state, rings_for(acme, begun[1]) - before) == (Progress.RELEASED, 1)


@gate("worker.drain")
def test_a_draining_worker_gives_back_what_it_has_not_sent(acme: Tenancy, worker: Runtime) -> None:
    stopping = WorkerRuntime()
    try:
        stopping.execution.drain()
        tool = Scripted.write(DONE)
        held = approved_write(acme)
        before = rings_for(acme, held)
        assert acme.work(tool.installed_in(stopping.runtime), held)[0].state is Progress.RELEASED
        assert rings_for(acme, held) == before + 1, "another worker is told at once, not by the next sweep"
    finally:
        stopping.close()
    given = row_of(acme, held)
    assert (given.status, given.effect_sent_at, given.attempt_number, tool.sent) == ("authorized", None, 1, [])
    (ended,) = acme.work(tool.installed_in(worker), held)
    assert (ended.outcome_status, len(tool.sent)) == (OutcomeStatus.SUCCEEDED, 1)


@dataclass(frozen=True, slots=True)
class Unwilling(SqlStore):
    """A store whose settlement fails as often as it is told to, before or after the statement has committed."""

    failures: list[Exception] = None  # type: ignore[assignment]
    commits_first: bool = False

    def _settle(self, *arguments: Any, **options: Any) -> Disposition:
        if not self.failures:
            return SqlStore._settle(self, *arguments, **options)
        if self.commits_first:
            SqlStore._settle(self, *arguments, **options)
        raise self.failures.pop(0)


def unwilling(runtime: Runtime, failures: list[Exception], *, commits_first: bool = False) -> Runtime:
    found = runtime.store
    assert isinstance(found, SqlStore)
    kept = {name: getattr(found, name) for name in ("sealer", "clock", "ids", "probe", "worker")}
    limits = replace(found.limits, lease_seconds=0.5)
    return replace(runtime, store=Unwilling(**kept, limits=limits, failures=failures, commits_first=commits_first))


@gate("audit.fail_closed")
def test_a_result_that_cannot_be_stored_at_first_is_stored_within_the_lease(acme: Tenancy, worker: Runtime) -> None:
    tool = Scripted.write(DONE)
    runtime = unwilling(tool.installed_in(worker), [DataError("bad"), OperationalError("gone")])
    (ended,) = acme.work(runtime, approved_write(acme))
    assert (ended.outcome_status, len(tool.sent)) == (OutcomeStatus.SUCCEEDED, 1)


@gate("audit.fail_closed")
def test_an_answer_lost_after_the_commit_is_found_and_not_told_twice(acme: Tenancy, worker: Runtime) -> None:
    tool = Scripted.write(DONE)
    held = approved_write(acme)
    runtime = unwilling(tool.installed_in(worker), [OperationalError("cut")], commits_first=True)
    (ended,) = acme.work(runtime, held)
    assert (ended.outcome_status, len(tool.sent)) == (OutcomeStatus.SUCCEEDED, 1)
    assert events_of(acme, held).count("tool.call.completed") == 1


@gate("audit.fail_closed")
def test_a_write_that_cannot_be_recorded_fails_its_run_and_ends_uncertain(
    acme: Tenancy, worker: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SETTLE_PAUSE_SECONDS", 0.05)
    tool = Scripted.write(DONE)
    held = approved_write(acme)
    (silent,) = acme.work(unwilling(tool.installed_in(worker), [DataError("bad")] * 99), held)
    assert (silent.state, silent.outcome_status) == (Progress.IN_FLIGHT, None)
    assert row_of(acme, held).unrecorded_at is not None
    with tenant_transaction(acme.id):
        run = Run.objects.get(pk=acme.run.id)
    assert (run.status, run.failure_reason_code) == ("failed", "audit.persistence_failed")
    pass_lease(acme, held)
    (ended,) = acme.work(tool.installed_in(worker), held)
    assert (ended.outcome_status, len(tool.sent)) == (OutcomeStatus.UNCERTAIN, 1)
    assert "tool.call.uncertain" in events_of(acme, held)


@gate("audit.fail_closed")
def test_who_has_lost_the_claim_fails_no_run_for_want_of_a_record(acme: Tenancy, worker: Runtime) -> None:
    """Frozen while it tried to store its result: by now another worker runs the call."""
    held = approved_write(acme)
    for _ in range(2):
        with pytest.raises(Crash):
            acme.work(crashing(worker, "after_claim"), held)
        pass_lease(acme, held)
    mark = "SELECT toolsys_commit_unrecorded(%s, %s, %s)"
    assert database.call(mark, (acme.id, held.invocation_id, 1)) == [(False,)]
    with tenant_transaction(acme.id):
        assert Run.objects.get(pk=acme.run.id).status == "running"
    assert row_of(acme, held).unrecorded_at is None


@gate("lease.kept")
@pytest.mark.parametrize("moment", ["before_claim", "after_claim"])
def test_a_lease_is_counted_from_before_it_was_asked_for(acme: Tenancy, worker: Runtime, moment: str) -> None:
    """A process frozen while its claim is under way may hold a lease that is over by the time it hears of it."""
    late = Scripted.write(DONE)
    held = approved_write(acme)
    with OwnWorker(worker, lease_seconds=30.0, is_beating=False) as frozen:

        def freeze() -> None:
            frozen.clock.ahead += 31.0

        acme.work(at(late.installed_in(frozen.runtime), moment, freeze), held)
    assert late.sent == []


@gate("recovery.unknown_watermark")
@pytest.mark.parametrize(("cuts", "sent"), [(1, 1), (2, 0)])
def test_a_watermark_whose_commit_is_unknown_is_read_back_or_nothing_is_sent(
    acme: Tenancy, worker: Runtime, monkeypatch: pytest.MonkeyPatch, cuts: int, sent: int
) -> None:
    """The statement commits, and its answer is cut off."""
    real, left = database.call, [cuts]

    def cut(statement: str, parameters: Any, **options: Any) -> Any:
        answer = real(statement, parameters, **options)
        if "commit_watermark" in statement and left[0]:
            left[0] -= 1
            raise OperationalError("the connection was cut")
        return answer

    tool = Scripted.write(DONE)
    held = approved_write(acme)
    monkeypatch.setattr(database, "call", cut)
    if cuts == 1:
        assert acme.work(tool.installed_in(worker), held)[0].outcome_status is OutcomeStatus.SUCCEEDED
    else:
        with pytest.raises(OperationalError):
            acme.work(tool.installed_in(worker), held)
    assert len(tool.sent) == sent


@gate("recovery.fence")
def test_after_the_recovery_fence_every_open_call_counts_as_sent(acme: Tenancy, worker: Runtime) -> None:
    held = approved_write(acme)
    with pytest.raises(Crash):
        acme.work(crashing(worker, "after_claim"), held)
    before = PlatformState.objects.using("operator").get().database_epoch
    call_command("recovery_fence", stdout=StringIO())
    assert PlatformState.objects.using("operator").get().database_epoch == before + 1
    pass_lease(acme, held)
    (ended,) = acme.work(worker, held)
    assert ended.outcome_status is OutcomeStatus.UNCERTAIN


@gate("attempts.bounded")
def test_the_fence_does_not_hold_past_the_deadline_although_the_lease_does(acme: Tenancy, worker: Runtime) -> None:
    held = approved_write(acme)
    with pytest.raises(Crash):
        acme.work(crashing(worker, "after_claim"), held)
    claimed = row_of(acme, held)
    asked = (acme.id, held.invocation_id, claimed.claim_epoch, claimed.authz_epoch)
    with tenant_transaction(acme.id):
        Invocation.objects.filter(pk=held.invocation_id).update(operation_deadline="2020-01-01T00:00:00Z")
    assert database.call("SELECT toolsys_commit_watermark(%s, %s, %s, %s)", asked) == [("lost",)]
    assert row_of(acme, held).effect_sent_at is None


@gate("attempts.class")
@pytest.mark.parametrize(
    ("status", "expected"),
    [(413, ("failed", "tool.upstream_error")), (500, ("uncertain", "tool.outcome_unknown")),
     (502, ("uncertain", "tool.outcome_unknown"))],
)  # fmt: skip
def test_a_write_whose_far_side_broke_down_is_uncertain_and_one_that_it_refused_has_failed(
    acme: Tenancy, worker: Runtime, monkeypatch: pytest.MonkeyPatch, status: int, expected: tuple[str, str]
) -> None:
    """Whoever stands in between says 502 also of what has happened."""
    monkeypatch.setattr(Handler, "do_POST", lambda handler: handler._answer(status, {"error": "x"}))
    with EffectServer() as effects:
        (held,) = acme.propose(("demo.external_write", {"line": "x"}))
        approve(acme, held)
        (done,) = acme.work(effects.installed_in(worker), held)
    assert (done.outcome_status, done.reason_code) == expected
