"""The contract's world over PostgreSQL: the real store, and moments moved through the ORM as time would."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db.models import F
from django.utils import timezone

from tests.contract.store.worlds import LIMITS, Seen
from tests.factories import Tenancy, approver, make_tenancy
from toolsys import database, resolutions, services
from toolsys.decisions import SeatVote, lock_request, record_decision
from toolsys.domain.calls import Claim
from toolsys.domain.seats import Seat
from toolsys.domain.states import ApprovalStatus, InvocationStatus, OutcomeStatus, RunStatus
from toolsys.models import (
    ApprovalRequest,
    GrantUse,
    Invocation,
    InvocationPayload,
    PlatformState,
    PolicyDecision,
    Resolution,
    Run,
    RunStep,
    StandingGrant,
    Tenant,
    ToolEvent,
    WorkerProof,
)
from toolsys.ports import Limits
from toolsys.store import SqlStore
from toolsys.tenancy import tenant_transaction

DAY = timedelta(days=1)


class SqlWorld:
    """Implements `worlds.World`. Platform-wide changes are this test process's own; `close` takes them back."""

    def __init__(self) -> None:
        self._tenancy: Tenancy = make_tenancy("acme")
        self.tenant_id = self._tenancy.id
        self.run_id: UUID = self._tenancy.run.id
        self.key_id: UUID = self._tenancy.key.id

    def close(self) -> None:
        self.switch_platform(on=True)

    def store(self, limits: Limits = LIMITS, worker: str = "w1") -> SqlStore:
        store = self._tenancy.runtime.store
        assert isinstance(store, SqlStore)
        return replace(store, limits=limits, worker=worker)

    def seen(self, row_id: UUID) -> Seen:
        with tenant_transaction(self.tenant_id):
            row = Invocation.objects.get(pk=row_id)
            run = Run.objects.get(pk=self.run_id)
            request = ApprovalRequest.objects.filter(invocation_id=row_id).first()
            return Seen(
                InvocationStatus(row.status), OutcomeStatus(row.outcome_status) if row.outcome_status else None,
                row.reason_code, row.claim_epoch, row.claimed_by, row.lease_expires_at, row.operation_deadline,
                row.effect_sent_at, row.dispatch_after, ApprovalStatus(request.status) if request else None,
                tuple(ToolEvent.objects.filter(invocation_id=row_id).order_by("id").values_list("type", flat=True)),
                frozenset(InvocationPayload.objects.filter(invocation_id=row_id).values_list("kind", flat=True)),
                PolicyDecision.objects.filter(invocation_id=row_id).count(),
                RunStep.objects.get(pk=row.step_id).completed_at is not None, RunStatus(run.status),
                run.delivered_trust,
            )  # fmt: skip

    def row_count(self) -> int:
        with tenant_transaction(self.tenant_id):
            return Invocation.objects.filter(run_id=self.run_id).count()

    def pass_lease(self, row_id: UUID) -> None:
        self._change(row_id, lease_expires_at=timezone.now() - DAY)

    def pass_operation_deadline(self, row_id: UUID) -> None:
        self._change(row_id, operation_deadline=timezone.now() - DAY)

    def end_soon(self, row_id: UUID, seconds: float) -> datetime:
        deadline = timezone.now() + timedelta(seconds=seconds)
        self._change(
            row_id, operation_deadline=deadline, lease_expires_at=timezone.now() + timedelta(seconds=seconds / 2)
        )
        return deadline

    def pass_dispatch(self, row_id: UUID) -> None:
        self._change(row_id, dispatch_after=timezone.now() - DAY)

    def pass_expiry(self, row_id: UUID) -> None:
        with tenant_transaction(self.tenant_id):
            ApprovalRequest.objects.filter(invocation_id=row_id).update(expires_at=timezone.now() - DAY)

    def pass_consumption(self, row_id: UUID) -> None:
        with tenant_transaction(self.tenant_id):
            ApprovalRequest.objects.filter(invocation_id=row_id).update(consume_by=timezone.now() - DAY)

    def pass_run_deadline(self) -> None:
        with tenant_transaction(self.tenant_id):
            Run.objects.filter(pk=self.run_id).update(deadline_at=timezone.now() - DAY)

    def age_step(self, row_id: UUID, seconds: float = 86_400.0) -> None:
        with tenant_transaction(self.tenant_id):
            step, by = Invocation.objects.get(pk=row_id).step_id, timedelta(seconds=seconds)
            RunStep.objects.filter(pk=step).update(created_at=F("created_at") - by)
            ended = Invocation.objects.filter(step_id=step, completed_at__isnull=False)
            ended.update(completed_at=F("completed_at") - by)

    def age_ring(self, row_id: UUID, seconds: float) -> None:
        with tenant_transaction(self.tenant_id):
            step = Invocation.objects.get(pk=row_id).step_id
            RunStep.objects.filter(pk=step).update(rung_at=F("rung_at") - timedelta(seconds=seconds))

    def decide(self, row_id: UUID, *, is_approval: bool, digest: str | None = None) -> None:
        with tenant_transaction(self.tenant_id):
            request = ApprovalRequest.objects.get(invocation_id=row_id)
            if digest is not None:
                ApprovalRequest.objects.filter(pk=request.pk).update(digest=digest)
            row, person = lock_request(request.pk).row, approver(self.tenant_id)
            if is_approval:
                record_decision(row, ApprovalStatus.APPROVED, user=person, votes=[SeatVote(person.pk, Seat.EXPERT)])
            else:
                code = "policy.approval.expert_rejected"
                record_decision(row, ApprovalStatus.REJECTED, user=person, votes=[], rejection_code=code)

    def grant(self, uses: int) -> UUID:
        (held,) = self._tenancy.propose(("demo.external_write", {"line": "drawn from"}), step=999)
        confirms, proposes = approver(self.tenant_id), approver(self.tenant_id)
        with tenant_transaction(self.tenant_id):
            request = ApprovalRequest.objects.get(invocation_id=held.invocation_id)
            made = StandingGrant.objects.create(
                tenant_id=self.tenant_id, request=request, agent_id=self._tenancy.agent.pk, seats=["expert"],
                tool_name="demo.external_write", tool_digest=request.tool_digest, origin_trust="external_untrusted",
                maximum_uses=uses, expires_at=timezone.now() + DAY, note="of the contract", proposed_by=proposes,
                confirmations=[{"user": confirms.pk, "seat": "expert"}], activated_at=timezone.now(),
            )  # fmt: skip
        return made.pk

    def uses_left(self, grant: UUID) -> int:
        with tenant_transaction(self.tenant_id):
            row = StandingGrant.objects.get(pk=grant)
            assert GrantUse.objects.filter(grant=row).count() == row.uses
            return row.maximum_uses - row.uses

    def resolve(self, row_id: UUID, *, has_happened: bool) -> None:
        user, _ = get_user_model().objects.using("operator").get_or_create(username="operator of the contract")
        resolutions.resolve(
            tenant_id=self.tenant_id, invocation_id=row_id, evidence="the log was read", user=user,
            resolution=Resolution.HAPPENED if has_happened else Resolution.NOT_HAPPENED,
            worker_proof=None if has_happened else WorkerProof.PROCESS_GONE,
        )  # fmt: skip

    def cancel_run(self) -> None:
        services.end_run(tenant_id=self.tenant_id, run_id=self.run_id, cancel=True, runtime=self._tenancy.runtime)

    def mark_only_the_run(self) -> None:
        with tenant_transaction(self.tenant_id):
            Run.objects.filter(pk=self.run_id).update(cancel_requested_at=timezone.now())

    def cancel_call(self, row_id: UUID) -> None:
        self._change(row_id, cancel_requested_at=timezone.now(), dispatch_after=timezone.now())

    def suspend(self, row_id: UUID) -> None:
        self._change(row_id, suspended_kind="question")

    def limit_calls(self, count: int) -> None:
        with tenant_transaction(self.tenant_id):
            Run.objects.filter(pk=self.run_id).update(budgets={"calls": count})

    def switch_tenant(self, *, on: bool) -> None:
        Tenant.objects.using("operator").filter(pk=self.tenant_id).update(is_enabled=on)

    def switch_platform(self, *, on: bool) -> None:
        PlatformState.objects.using("operator").update(is_execution_enabled=on)

    def raise_database_epoch(self) -> None:
        PlatformState.objects.using("operator").update(database_epoch=F("database_epoch") + 1)

    def renew(self, claims: Collection[Claim]) -> set[UUID]:
        asked = (
            self.tenant_id, [claim.invocation_id for claim in claims], [claim.epoch for claim in claims],
            LIMITS.lease_seconds,
        )  # fmt: skip
        return {row[0] for row in database.call("SELECT * FROM toolsys_renew(%s, %s, %s, %s)", asked)}

    def sweep(self) -> set[tuple[str, UUID]]:
        found = database.call("SELECT * FROM toolsys_sweep(%s, %s)", (500, LIMITS.dispatch_grace_seconds))
        return {(kind, identifier) for kind, tenant, identifier, _ in found if tenant == self.tenant_id}

    def _change(self, row_id: UUID, **changes: object) -> None:
        with tenant_transaction(self.tenant_id):
            Invocation.objects.filter(pk=row_id).update(**changes)
