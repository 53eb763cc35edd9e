"""One call through the whole pipeline, over the real store: what is handed off, held, refused and recorded."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.factories import Tenancy, approve, events_of, make_tenancy, reject
from tests.spec.requirements import gate
from toolsys.domain.calls import Progress
from toolsys.domain.states import InvocationStatus, OutcomeStatus, RunStatus
from toolsys.domain.trust import TrustLevel
from toolsys.models import ApiKey, ApprovalRequest, Invocation, PolicyDecision, Principal, Run, RunStep, Tenant
from toolsys.ports import Runtime
from toolsys.problems import Problem
from toolsys.tenancy import tenant_transaction


@gate("pipeline.read")
def test_a_read_is_handed_off_executed_and_recorded(acme: Tenancy, worker: Runtime) -> None:
    (proposed,) = acme.propose(("demo.echo", {"text": "hello"}))
    assert proposed.state is Progress.HANDED_OFF
    acme.work(worker, proposed)
    call = acme.call(proposed)
    assert call.status is InvocationStatus.SUCCEEDED
    assert call.payload["content"] == [{"type": "text", "text": "hello"}]
    assert events_of(acme, proposed) == [
        "tool.call.proposed", "tool.call.authorized", "tool.call.started", "tool.call.completed",
    ]  # fmt: skip


def test_the_steps_of_a_call_are_recorded_with_their_times(acme: Tenancy, worker: Runtime) -> None:
    (proposed,) = acme.propose(("demo.echo", {"text": "hello"}))
    acme.work(worker, proposed)
    with tenant_transaction(acme.id):
        row = Invocation.objects.get(pk=proposed.invocation_id)
    seen = [entry["step"] for entry in row.step_trace]
    assert seen == [1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12]
    assert row.authorized_at is not None
    assert row.started_at is not None
    assert row.completed_at is not None
    assert row.authorized_at <= row.started_at <= row.completed_at


def test_a_step_goes_on_in_order_and_a_refused_call_does_not_stop_it(acme: Tenancy, worker: Runtime) -> None:
    (first,) = acme.propose(
        ("demo.echo", {"text": "a"}),
        ("nope.nothing", {}),
        ("demo.echo", {"wrong": 1}),
        ("math.evaluate", {"expression": "2*21"}),
    )
    done = acme.work(worker, first)
    assert [each.outcome_status for each in done] == [
        OutcomeStatus.SUCCEEDED, OutcomeStatus.DENIED, OutcomeStatus.FAILED, OutcomeStatus.SUCCEEDED,
    ]  # fmt: skip
    assert [each.reason_code for each in done] == [
        "tool.succeeded", "policy.matrix.unknown_tool", "tool.arguments_invalid", "tool.succeeded",
    ]  # fmt: skip
    with tenant_transaction(acme.id):
        assert RunStep.objects.get(run=acme.run).completed_at is not None


@gate("dedup.replay")
def test_the_same_submission_again_is_a_replay_and_runs_nothing(acme: Tenancy, worker: Runtime) -> None:
    (proposed,) = acme.propose(("demo.echo", {"text": "once"}), step=1)
    acme.work(worker, proposed)
    (again,) = acme.propose(("demo.echo", {"text": "once"}), step=1)
    assert (again.is_replay, again.invocation_id) == (True, proposed.invocation_id)
    assert events_of(acme, proposed).count("tool.call.started") == 1


def test_a_repeated_post_attaches_to_a_call_in_flight(acme: Tenancy) -> None:
    (proposed,) = acme.propose(("demo.echo", {"text": "once"}), step=1)
    (again,) = acme.propose(("demo.echo", {"text": "once"}), step=1)
    assert (again.state, again.invocation_id) == (Progress.HANDED_OFF, proposed.invocation_id)


def test_the_same_step_with_another_body_is_a_conflict_and_writes_nothing(acme: Tenancy) -> None:
    acme.propose(("demo.echo", {"text": "one"}), step=1)
    with pytest.raises(Problem) as refused:
        acme.propose(("demo.echo", {"text": "two"}), step=1)
    assert refused.value.reason_code == "step.conflict"
    with tenant_transaction(acme.id):
        assert Invocation.objects.filter(run=acme.run).count() == 1


def test_two_deliveries_of_one_job_execute_once(acme: Tenancy, worker: Runtime) -> None:
    (proposed,) = acme.propose(("demo.echo", {"text": "x"}))
    acme.work(worker, proposed)
    (second,) = acme.work(worker, proposed)
    assert second.is_replay
    assert events_of(acme, proposed).count("tool.call.started") == 1


def test_arguments_without_canonical_form_become_an_outcome(acme: Tenancy) -> None:
    from toolsys.services import CallDraft

    draft = CallDraft("call_0", "demo.echo", None, raw_hash="f" * 64)
    (refused,) = acme.propose(calls=(draft,))
    assert (refused.outcome_status, refused.reason_code) == (OutcomeStatus.FAILED, "tool.arguments_invalid")


@gate("registry.unknown")
def test_an_unknown_tool_resolves_to_the_strictest_class_and_is_denied(acme: Tenancy) -> None:
    (denied,) = acme.propose(("nope.nothing", {"a": 1}))
    with tenant_transaction(acme.id):
        row = Invocation.objects.get(pk=denied.invocation_id)
    assert (row.side_effect, row.risk, row.idempotency_class) == ("external_write", "high", "non_idempotent")
    assert (row.status, row.reason_code) == ("denied", "policy.matrix.unknown_tool")


class TestAuthorization:
    def test_a_scope_that_the_principal_lacks_denies(self, acme: Tenancy) -> None:
        (held,) = acme.propose(("demo.external_write", {"line": "x"}), step=1)
        assert held.state is Progress.HELD
        with tenant_transaction(acme.id):
            Principal.objects.filter(pk=acme.principal.pk).update(scopes=[])
        (denied,) = acme.propose(("demo.external_write", {"line": "y"}), step=2)
        assert denied.reason_code == "policy.scope.missing"

    def test_a_change_between_proposal_and_execution_is_seen_by_the_worker(
        self, acme: Tenancy, worker: Runtime
    ) -> None:
        (proposed,) = acme.propose(("demo.echo", {"text": "x"}))
        with tenant_transaction(acme.id):
            ApiKey.objects.filter(pk=acme.key.pk).update(revoked_at=timezone.now())
        (ended,) = acme.work(worker, proposed)
        assert (ended.outcome_status, ended.reason_code) == (OutcomeStatus.DENIED, "policy.scope.missing")

    def test_the_agents_tools_as_they_are_now_decide(self, acme: Tenancy) -> None:
        acme.agent.enabled_tools = ["math.*"]
        with tenant_transaction(acme.id):
            acme.agent.save()
        (denied,) = acme.propose(("demo.echo", {"text": "x"}))
        assert denied.reason_code == "policy.agent.not_enabled"

    def test_the_tenants_switch_and_flag_deny(self, acme: Tenancy) -> None:
        Tenant.objects.using("operator").filter(pk=acme.id).update(is_enabled=False)
        (off,) = acme.propose(("demo.echo", {"text": "x"}))
        Tenant.objects.using("operator").filter(pk=acme.id).update(is_enabled=True, is_tool_calling_enabled=False)
        (flagged,) = acme.propose(("demo.echo", {"text": "y"}))
        assert (off.reason_code, flagged.reason_code) == ("policy.switch.off", "policy.feature.disabled")

    def test_a_tool_outside_the_manifest_is_denied(self, acme: Tenancy) -> None:
        with tenant_transaction(acme.id):
            Run.objects.filter(pk=acme.run.pk).update(manifest=["math.*"])
        (denied,) = acme.propose(("demo.echo", {"text": "x"}))
        assert denied.reason_code == "policy.manifest.not_listed"

    def test_every_evaluation_is_recorded_with_its_reason_and_trust(self, acme: Tenancy) -> None:
        (held,) = acme.propose(("demo.external_write", {"line": "x"}))
        with tenant_transaction(acme.id):
            decision = PolicyDecision.objects.get(invocation_id=held.invocation_id)
        assert (decision.verdict, decision.reason_code, decision.rule) == (
            "require_expert_approval", "policy.matrix.external_write", "matrix",
        )  # fmt: skip
        assert decision.trust["origin"] == "external_untrusted"


class TestTrust:
    def test_labels_are_believed_only_from_a_key_that_may_assert_them(self, database: None) -> None:
        origins = [
            tenancy.call(
                tenancy.propose(("demo.echo", {"text": "x"}), context_trust=(TrustLevel.USER,))[0]
            ).origin_trust
            for tenancy in (make_tenancy("acme", scopes=["demo.write"]), make_tenancy("acme", scopes=["trust.assert"]))
        ]
        assert origins == ["external_untrusted", "user"]

    def test_what_a_run_has_delivered_caps_the_origin_of_later_steps(self, acme: Tenancy, worker: Runtime) -> None:
        (first,) = acme.propose(("demo.echo", {"text": "x"}), context_trust=(TrustLevel.USER,))
        acme.work(worker, first)
        (second,) = acme.propose(("demo.echo", {"text": "y"}), context_trust=(TrustLevel.USER,))
        assert acme.call(second).origin_trust == "internal_tool"


class TestApproval:
    def test_a_write_is_held_and_its_run_says_so(self, acme: Tenancy) -> None:
        (held,) = acme.propose(("demo.external_write", {"line": "x"}))
        with tenant_transaction(acme.id):
            request = ApprovalRequest.objects.get(invocation_id=held.invocation_id)
            assert Run.objects.get(pk=acme.run.pk).status == RunStatus.WAITING_FOR_APPROVAL
        assert (request.status, request.seats) == ("pending", ["expert"])

    @gate("pipeline.held")
    def test_a_run_with_a_held_call_takes_further_steps_and_still_says_what_it_waits_for(
        self, acme: Tenancy, worker: Runtime
    ) -> None:
        (held,) = acme.propose(("demo.external_write", {"line": "x"}))
        (further,) = acme.propose(("demo.echo", {"text": "x"}))
        (ended,) = acme.work(worker, further)
        assert ended.outcome_status is OutcomeStatus.SUCCEEDED
        with tenant_transaction(acme.id):
            assert Run.objects.get(pk=acme.run.pk).status == RunStatus.WAITING_FOR_APPROVAL
        assert acme.call(held).status is InvocationStatus.WAITING_FOR_APPROVAL

    def test_a_held_call_submitted_again_returns_the_same_approval(self, acme: Tenancy) -> None:
        (held,) = acme.propose(("demo.external_write", {"line": "x"}), step=1)
        (again,) = acme.propose(("demo.external_write", {"line": "x"}), step=1)
        assert again == held
        with tenant_transaction(acme.id):
            assert ApprovalRequest.objects.filter(run=acme.run).count() == 1

    @gate("pipeline.held")
    def test_an_approved_call_consumes_its_approval_once(self, acme: Tenancy, worker: Runtime) -> None:
        (held,) = acme.propose(("demo.external_write", {"line": "x"}))
        approve(acme, held)
        acme.work(worker, held)
        with tenant_transaction(acme.id):
            request = ApprovalRequest.objects.get(invocation_id=held.invocation_id)
            assert Run.objects.get(pk=acme.run.pk).status == RunStatus.RUNNING
        assert request.status == "consumed"
        assert acme.call(held).effect_sent

    def test_a_rejected_call_is_denied_and_never_sent(self, acme: Tenancy, worker: Runtime) -> None:
        (held,) = acme.propose(("demo.external_write", {"line": "x"}))
        reject(acme, held)
        (ended,) = acme.work(worker, held)
        assert (ended.outcome_status, ended.reason_code) == (OutcomeStatus.DENIED, "policy.approval.expert_rejected")
        assert not acme.call(held).effect_sent

    def test_an_expired_request_denies(self, acme: Tenancy, worker: Runtime) -> None:
        (held,) = acme.propose(("demo.external_write", {"line": "x"}))
        with tenant_transaction(acme.id):
            ApprovalRequest.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        (ended,) = acme.work(worker, held)
        assert ended.reason_code == "policy.approval.expired"
        with tenant_transaction(acme.id):
            assert ApprovalRequest.objects.get(invocation_id=held.invocation_id).status == "expired"

    def test_an_approval_of_something_else_is_void(self, acme: Tenancy, worker: Runtime) -> None:
        (held,) = acme.propose(("demo.external_write", {"line": "x"}))
        approve(acme, held, digest="0" * 64)
        (ended,) = acme.work(worker, held)
        assert ended.reason_code == "policy.approval.voided"
        assert not acme.call(held).effect_sent

    def test_an_approval_not_used_in_time_denies(self, acme: Tenancy, worker: Runtime) -> None:
        (held,) = acme.propose(("demo.external_write", {"line": "x"}))
        approve(acme, held)
        with tenant_transaction(acme.id):
            ApprovalRequest.objects.update(consume_by=timezone.now() - timedelta(seconds=1))
        (ended,) = acme.work(worker, held)
        assert ended.reason_code == "policy.approval.expired"


class TestRuns:
    def test_an_expired_run_takes_no_step_and_writes_nothing(self, acme: Tenancy) -> None:
        with tenant_transaction(acme.id):
            Run.objects.filter(pk=acme.run.pk).update(deadline_at=timezone.now() - timedelta(seconds=1))
        with pytest.raises(Problem) as refused:
            acme.propose(("demo.echo", {"text": "x"}))
        assert refused.value.reason_code == "run.expired"
        with tenant_transaction(acme.id):
            assert not RunStep.objects.filter(run=acme.run).exists()

    def test_an_accepted_call_of_an_expired_run_ends(self, acme: Tenancy, worker: Runtime) -> None:
        (proposed,) = acme.propose(("demo.echo", {"text": "x"}))
        with tenant_transaction(acme.id):
            Run.objects.filter(pk=acme.run.pk).update(deadline_at=timezone.now() - timedelta(seconds=1))
        (ended,) = acme.work(worker, proposed)
        assert ended.reason_code == "tool.run_expired"

    def test_cancelling_a_run_ends_its_open_calls_also_a_held_one(self, acme: Tenancy, worker: Runtime) -> None:
        from toolsys import services

        (proposed,) = acme.propose(("demo.echo", {"text": "x"}), ("demo.external_write", {"line": "y"}))
        (held,) = acme.propose(("demo.external_write", {"line": "x"}))
        services.end_run(tenant_id=acme.id, run_id=acme.run.id, cancel=True, runtime=acme.runtime)
        ended = acme.work(worker, proposed)
        assert [each.reason_code for each in ended] == ["tool.run_cancelled", "tool.run_cancelled"]
        assert [each.reason_code for each in acme.work(worker, held)] == ["tool.run_cancelled"]

    def test_another_tenants_run_does_not_exist(self, acme: Tenancy, globex: Tenancy) -> None:
        with pytest.raises(Problem) as refused:
            globex.propose(("demo.echo", {"text": "x"}), run_id=acme.run.id)
        assert refused.value.reason_code == "request.not_found"
