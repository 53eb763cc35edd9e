"""The breakers over real rows: loops, repeated denials, uncertain calls, and what new evidence changes."""

import uuid

import pytest
from django.core.management import call_command

from tests.factories import Tenancy, approve
from tests.integration.test_recovery import CrashAt, crashing, pass_lease
from tests.scripted import Scripted, failing
from tests.spec.requirements import gate
from toolsys import evidence, resolutions
from toolsys.domain.calls import Disposition
from toolsys.domain.results import TextPart, ToolFailureKind, ToolResult
from toolsys.domain.states import OutcomeStatus
from toolsys.models import Agent, Invocation, Resolution, Run, UncertainResolution, WorkerProof
from toolsys.ports import Runtime
from toolsys.problems import Problem
from toolsys.tenancy import tenant_transaction
from toolsys.trace import STEP_NAMES

UNKNOWN = failing(ToolFailureKind.OUTCOME_UNKNOWN, "tool.outcome_unknown")


def once(tenancy: Tenancy, worker: Runtime, text: str = "same") -> Disposition:
    (first,) = tenancy.propose(("demo.echo", {"text": text}))
    if first.is_settled:
        return first
    (ended,) = tenancy.work(worker, first)
    return ended


def run_of(tenancy: Tenancy) -> Run:
    with tenant_transaction(tenancy.id):
        return Run.objects.get(pk=tenancy.run.id)


def seen(key: str) -> ToolResult:
    return ToolResult(ok=True, content=(TextPart(text="seen"),), structured={"text": "seen"}, evidence_key=key)


@gate("breaker.loop")
def test_the_fifth_identical_call_of_a_run_is_not_performed(acme: Tenancy, worker: Runtime) -> None:
    assert [once(acme, worker).reason_code for _ in range(4)] == ["tool.succeeded"] * 4
    assert once(acme, worker, "another").reason_code == "tool.loop_detected", "this turn is for answering"
    assert once(acme, worker, "another still").reason_code == "tool.succeeded"
    stopped = once(acme, worker)
    assert (stopped.outcome_status, stopped.reason_code) == (OutcomeStatus.FAILED, "tool.loop_detected")


@gate("breaker.loop")
def test_calls_of_other_runs_do_not_count(acme: Tenancy, globex: Tenancy, worker: Runtime) -> None:
    for _ in range(4):
        once(acme, worker)
    assert once(globex, worker).reason_code == "tool.succeeded"


@gate("breaker.evidence")
def test_new_evidence_restarts_the_count_and_the_same_evidence_does_not(acme: Tenancy, worker: Runtime) -> None:
    changing = Scripted.echo(*(seen(f"page {n}") for n in range(9))).installed_in(worker)
    assert [once(acme, changing).reason_code for _ in range(8)] == ["tool.succeeded"] * 8
    standing = Scripted.echo(seen("one page")).installed_in(worker)
    found = [once(acme, standing, "standing").reason_code for _ in range(5)]
    assert found == ["tool.succeeded"] * 4 + ["tool.loop_detected"]
    assert run_of(acme).evidence_restarts == 7


@gate("breaker.evidence")
def test_restarts_are_capped_in_a_run(acme: Tenancy, worker: Runtime) -> None:
    with tenant_transaction(acme.id):
        Run.objects.filter(pk=acme.run.id).update(evidence_restarts=32)
    changing = Scripted.echo(*(seen(f"page {n}") for n in range(9))).installed_in(worker)
    found = [once(acme, changing).reason_code for _ in range(5)]
    assert found == ["tool.succeeded"] * 4 + ["tool.loop_detected"]


@gate("breaker.denied")
def test_the_third_identical_denial_fails_the_run(acme: Tenancy) -> None:
    with tenant_transaction(acme.id):
        Agent.objects.filter(pk=acme.agent.pk).update(enabled_tools=["demo.echo"])
    found = [acme.propose(("math.evaluate", {"expression": "1"}))[0].reason_code for _ in range(3)]
    assert found == ["policy.agent.not_enabled", "policy.agent.not_enabled", "tool.policy_denied"]
    run = run_of(acme)
    assert (run.status, run.failure_reason_code) == ("failed", "tool.policy_denied")
    assert run.ended_at is not None
    with pytest.raises(Problem) as refused:
        acme.propose(("demo.echo", {"text": "x"}))
    assert refused.value.reason_code == "run.not_open"


@gate("breaker.denied")
def test_different_denials_fail_nothing(acme: Tenancy) -> None:
    for number in range(4):
        acme.propose((f"demo.unknown{number}", {}))
    assert run_of(acme).status == "running"


def uncertain(tenancy: Tenancy, worker: Runtime) -> Disposition:
    (held,) = tenancy.propose(("demo.external_write", {"line": "x"}))
    approve(tenancy, held)
    (ended,) = tenancy.work(Scripted.write(UNKNOWN).installed_in(worker), held)
    assert ended.outcome_status is OutcomeStatus.UNCERTAIN
    return ended


@gate("breaker.uncertain")
def test_an_uncertain_call_is_not_proposed_again_until_it_is_known_not_to_have_happened(
    acme: Tenancy, worker: Runtime, operator: object
) -> None:
    ended = uncertain(acme, worker)
    again = acme.propose(("demo.external_write", {"line": "x"}))[0]
    assert (again.outcome_status, again.reason_code) == (OutcomeStatus.DENIED, "tool.repeat_uncertain")
    resolve(acme, ended, Resolution.HAPPENED, operator)
    assert acme.propose(("demo.external_write", {"line": "x"}))[0].reason_code == "tool.repeat_uncertain"
    resolve(acme, ended, Resolution.NOT_HAPPENED, operator)
    assert acme.propose(("demo.external_write", {"line": "x"}))[0].reason_code is None, "held, like any first one"
    with tenant_transaction(acme.id):
        assert Invocation.objects.get(pk=ended.invocation_id).status == "uncertain"
        assert UncertainResolution.objects.filter(invocation_id=ended.invocation_id).count() == 2


def resolve(tenancy: Tenancy, ended: Disposition, resolution: Resolution, operator: object) -> UncertainResolution:
    return resolutions.resolve(
        tenant_id=tenancy.id, invocation_id=ended.invocation_id, resolution=resolution, evidence="looked at the log",
        worker_proof=WorkerProof.PROCESS_GONE, user=operator,
    )  # fmt: skip


@pytest.fixture
def operator(database: None) -> object:
    from django.contrib.auth import get_user_model

    return get_user_model().objects.create_user(f"operator-{uuid.uuid4().hex[:8]}")


@gate("recovery.resolution")
def test_that_it_did_not_happen_needs_a_proof_about_the_worker(
    acme: Tenancy, worker: Runtime, operator: object
) -> None:
    ended = uncertain(acme, worker)
    with pytest.raises(Problem) as refused:
        resolutions.resolve(
            tenant_id=acme.id, invocation_id=ended.invocation_id, resolution=Resolution.NOT_HAPPENED,
            evidence="nothing in the log", worker_proof=None, user=operator,
        )  # fmt: skip
    assert [error.pointer for error in refused.value.errors] == ["/worker_proof"]


@gate("recovery.resolution")
def test_what_nobody_has_found_out_is_listed_with_what_its_row_proves(
    acme: Tenancy, globex: Tenancy, worker: Runtime, operator: object, capsys: pytest.CaptureFixture[str]
) -> None:
    done, ended = once(acme, worker), uncertain(acme, worker)
    (seen,) = evidence.uncertain_calls(acme.id)
    assert (seen.id, seen.tool_name, seen.claim_epoch) == (ended.invocation_id, "demo.external_write", 1)
    assert seen.claimed_by is not None
    assert seen.effect_sent_at is not None
    assert seen.completed_at is not None
    assert seen.effect_sent_at < seen.completed_at
    assert seen.last_step in STEP_NAMES
    assert evidence.uncertain_calls(globex.id) == []
    call_command("uncertain", acme.id)
    said = capsys.readouterr().out
    assert str(ended.invocation_id) in said
    assert str(done.invocation_id) not in said
    resolve(acme, ended, Resolution.LEFT_OPEN, operator)
    assert [each.id for each in evidence.uncertain_calls(acme.id)] == [ended.invocation_id]
    resolve(acme, ended, Resolution.HAPPENED, operator)
    assert evidence.uncertain_calls(acme.id) == []


@gate("recovery.resolution")
def test_only_an_uncertain_call_of_the_named_tenant_is_resolved(
    acme: Tenancy, globex: Tenancy, worker: Runtime, operator: object
) -> None:
    done = once(acme, worker)
    with pytest.raises(Problem) as refused:
        resolve(acme, done, Resolution.HAPPENED, operator)
    assert refused.value.reason_code == "resolution.not_uncertain"
    ended = uncertain(acme, worker)
    with pytest.raises(Problem) as hidden:
        resolve(globex, ended, Resolution.HAPPENED, operator)
    assert hidden.value.reason_code == "request.not_found"


@gate("recovery.resolution")
def test_a_worker_that_thaws_after_a_resolution_changes_nothing(
    acme: Tenancy, worker: Runtime, operator: object
) -> None:
    (held,) = acme.propose(("demo.external_write", {"line": "x"}))
    approve(acme, held)
    done = ToolResult(ok=True, content=(TextPart(text="late"),), structured={"line": "x"})

    def overtaken() -> ToolResult:
        """While the answer is on its way, the lease passes, another worker concludes, a person resolves."""
        pass_lease(acme, held)
        (ended,) = acme.work(worker, held)
        assert ended.outcome_status is OutcomeStatus.UNCERTAIN
        resolve(acme, ended, Resolution.NOT_HAPPENED, operator)
        return done

    frozen = crashing(Scripted.write(overtaken).installed_in(worker), "none")
    assert isinstance(frozen.store.probe, CrashAt)  # type: ignore[attr-defined]
    (late,) = acme.work(frozen, held)
    assert (late.outcome_status, late.is_replay) == (OutcomeStatus.UNCERTAIN, True)
