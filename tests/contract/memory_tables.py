"""The tables of the in-memory store, one tenant's worth, and what others than the pipeline do to them.

Nothing here is the pipeline's: people decide, cancel, switch; time passes because the clock is set. Every method is one
transaction. Used by `memory_store`, its contract suite and the model search.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

from toolsys.domain.calls import AgentFacts, KeyFacts, SessionFacts
from toolsys.domain.context import Principal
from toolsys.domain.seats import Seat
from toolsys.domain.spec import Classification
from toolsys.domain.states import ApprovalStatus, InvocationStatus, OutcomeStatus, PolicyVerdict, RunStatus
from toolsys.domain.trust import TrustLevel
from toolsys.ports import ApprovalTerms


class ManualClock:
    """Implements `ports.Clock`; database time and boottime are one, and move only when told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def boottime(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


@dataclass(slots=True)
class RunRow:
    id: UUID
    deadline_at: datetime
    status: RunStatus = RunStatus.RUNNING
    cancel_requested_at: datetime | None = None
    manifest: tuple[str, ...] | None = None
    delivered_trust: TrustLevel = TrustLevel.PLATFORM
    evidence_restarts: int = 0
    call_budget: int | None = None
    calls_begun: int = 0
    failure_reason_code: str = ""


@dataclass(slots=True)
class StepRow:
    id: UUID
    run_id: UUID
    number: int
    body_hash: str
    origin_trust: TrustLevel
    parallel_group: UUID | None
    call_count: int
    created_at: datetime
    completed_at: datetime | None = None
    rung_at: datetime | None = None


@dataclass(slots=True)
class CallRow:
    """One `tool_invocations` row, as far as the pipeline can tell."""

    id: UUID
    step: StepRow
    call_id: str
    tool_name: str
    tool_version: str
    arguments_hash: str
    idempotency_key: str
    classification: Classification
    timeout_seconds: float
    verdict: PolicyVerdict | None
    status: InvocationStatus
    authz_epoch: int
    database_epoch: int
    created_at: datetime
    dispatch_after: datetime | None
    not_before: datetime | None = None
    outcome_status: OutcomeStatus | None = None
    reason_code: str | None = None
    claim_epoch: int = 0
    attempt_number: int = 1
    claimed_by: str | None = None
    lease_expires_at: datetime | None = None
    operation_deadline: datetime | None = None
    effect_sent_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    suspended_kind: str | None = None
    completed_at: datetime | None = None
    identical_count: int = 1
    evidence: str | None = None

    def is_due(self, now: datetime) -> bool:
        return self.dispatch_after is None or self.dispatch_after <= now

    def has_live_lease(self, now: datetime) -> bool:
        return (
            self.status is InvocationStatus.RUNNING
            and self.lease_expires_at is not None
            and self.lease_expires_at > now
        )


@dataclass(slots=True)
class ApprovalRow:
    id: UUID
    digest: str
    verdict: PolicyVerdict
    terms: ApprovalTerms
    expires_at: datetime
    status: ApprovalStatus = ApprovalStatus.PENDING
    consume_by: datetime | None = None
    held: tuple[Seat, ...] = ()
    rejection_code: str | None = None


@dataclass(frozen=True, slots=True)
class Due:
    """What a sweep names: a row or a step that a worker should look at again."""

    kind: str
    id: UUID


@dataclass
class Tables:
    """One tenant's rows. `calls` are found by id; a step's by run and number."""

    clock: ManualClock
    tenant_id: str
    session: SessionFacts
    agent: AgentFacts
    principal: Principal
    key: KeyFacts
    is_platform_enabled: bool = True
    is_tenant_enabled: bool = True
    is_tool_calling_enabled: bool = True
    authz_epoch: int = 1
    database_epoch: int = 1
    runs: dict[UUID, RunRow] = field(default_factory=dict)
    steps: dict[tuple[UUID, int], StepRow] = field(default_factory=dict)
    calls: dict[UUID, CallRow] = field(default_factory=dict)
    approvals: dict[UUID, ApprovalRow] = field(default_factory=dict)
    decisions: list[tuple[UUID, PolicyVerdict]] = field(default_factory=list)
    events: dict[str, tuple[UUID, str]] = field(default_factory=dict)
    payloads: set[tuple[UUID, str]] = field(default_factory=set)
    grants: dict[UUID, int] = field(default_factory=dict)
    grant_uses: dict[UUID, UUID] = field(default_factory=dict)
    not_happened: set[UUID] = field(default_factory=set)

    def find(self, run_id: UUID, step_number: int, call_id: str) -> CallRow | None:
        for row in self.calls.values():
            if (row.step.run_id, row.step.number, row.call_id) == (run_id, step_number, call_id):
                return row
        return None

    def of_run(self, run_id: UUID) -> list[CallRow]:
        """Return the calls of a run, newest first: ids are ordered by time."""
        found = [row for row in self.calls.values() if row.step.run_id == run_id]
        return sorted(found, key=lambda row: row.id, reverse=True)

    def fail_run(self, run_id: UUID, reason_code: str) -> None:
        run = self.runs[run_id]
        if run.status.accepts_steps:
            run.status, run.failure_reason_code = RunStatus.FAILED, reason_code

    def of_step(self, step: StepRow) -> list[CallRow]:
        return [row for row in self.calls.values() if row.step is step]

    def emit(self, row: CallRow, kind: str, derivation: str) -> None:
        """An event with a known derivation key says nothing new."""
        self.events.setdefault(derivation, (row.id, kind))

    def may_use(self, grant: UUID | None) -> bool:
        return grant is None or self.grants.get(grant, 0) > 0

    def use(self, grant: UUID | None, row: CallRow) -> None:
        if grant is not None:
            self.grants[grant] -= 1
            self.grant_uses[row.id] = grant

    # -- what people and other processes do

    def cancel_run(self, run_id: UUID) -> list[UUID]:
        """Cancel a run with every call of it that is not terminal, as `services.end_run` does."""
        run, now = self.runs[run_id], self.clock.now()
        if not run.status.accepts_steps:
            return []
        run.status, run.cancel_requested_at = RunStatus.CANCELLED, now
        marked = [row for row in self.calls.values() if row.step.run_id == run_id and row.completed_at is None]
        for row in marked:
            row.cancel_requested_at = row.dispatch_after = now
        return [row.id for row in marked]

    def cancel_call(self, row_id: UUID) -> None:
        row = self.calls[row_id]
        row.cancel_requested_at = row.dispatch_after = self.clock.now()

    def decide(self, row_id: UUID, *, is_approval: bool, digest: str | None = None) -> bool:
        """Decide a pending request, as `decisions.record_decision` does after its checks."""
        request, now = self.approvals[row_id], self.clock.now()
        if request.status is not ApprovalStatus.PENDING or request.expires_at <= now:
            return False
        request.status = ApprovalStatus.APPROVED if is_approval else ApprovalStatus.REJECTED
        request.digest = digest or request.digest
        request.consume_by = now + timedelta(seconds=request.terms.consume_seconds)
        request.held = request.terms.seats if is_approval else ()
        request.rejection_code = None if is_approval else "policy.approval.expert_rejected"
        self.calls[row_id].dispatch_after = now
        self.emit(self.calls[row_id], f"approval.{request.status}", f"approval.{request.status}:{request.id}")
        return True

    def resolve(self, row_id: UUID, *, has_happened: bool) -> None:
        """Record what a person found out last; the call stays uncertain, what did not happen alarms no more."""
        assert self.calls[row_id].status is InvocationStatus.UNCERTAIN
        if has_happened:
            self.not_happened.discard(row_id)
        else:
            self.not_happened.add(row_id)

    def deactivate_approver(self, row_id: UUID) -> None:
        """Whoever approved is no longer entitled to: their vote counts no more, and the epoch rises."""
        self.approvals[row_id].held = ()
        self.raise_epoch()

    def raise_epoch(self) -> None:
        self.authz_epoch += 1

    def switch_tenant(self, *, on: bool) -> None:
        self.is_tenant_enabled = on
        self.raise_epoch()

    def switch_platform(self, *, on: bool) -> None:
        if on is not self.is_platform_enabled:
            self.raise_epoch()
        self.is_platform_enabled = on

    def raise_database_epoch(self) -> None:
        self.database_epoch += 1
        self.raise_epoch()

    # -- the sweeper's question (40_definers.sql)

    def sweep(self, grace_seconds: float) -> list[Due]:
        now = self.clock.now()
        found = []
        for row in self.calls.values():
            is_lost = row.status is InvocationStatus.RUNNING and not row.has_live_lease(now)
            if is_lost and row.suspended_kind is None and row.is_due(now) and row.lease_expires_at is not None:
                wait = min(60.0, max(grace_seconds / 2, (now - row.lease_expires_at).total_seconds() / 8))
                row.dispatch_after = now + timedelta(seconds=wait)
                found.append(Due("lease", row.id))
        for row in self.calls.values():
            if row.dispatch_after is not None and row.dispatch_after <= now and self._is_waiting(row, now):
                wait = min(60.0, max(grace_seconds, (now - row.created_at).total_seconds() / 2))
                row.dispatch_after = now + timedelta(seconds=wait)
                found.append(Due("dispatch", row.id))
        for step in self.steps.values():
            if step.completed_at is None and self._lacks_a_call(step, now, grace_seconds):
                step.rung_at = now
                found.append(Due("step", step.id))
        return found

    def _lacks_a_call(self, step: StepRow, now: datetime, grace_seconds: float) -> bool:
        """Every call that it has is over since the grace, and nobody was rung for lately."""
        ended = [row.completed_at for row in self.of_step(step)]
        over = [moment for moment in ended if moment is not None]
        since = max(over, default=step.created_at)
        if len(over) < len(ended) or since > now - timedelta(seconds=grace_seconds):
            return False
        if step.rung_at is None:
            return True
        wait = min(60.0, max(grace_seconds / 2, (step.rung_at - since).total_seconds() / 8))
        return step.rung_at <= now - timedelta(seconds=wait)

    def _is_waiting(self, row: CallRow, now: datetime) -> bool:
        if row.status is not InvocationStatus.WAITING_FOR_APPROVAL:
            return row.status is InvocationStatus.AUTHORIZED
        request = self.approvals[row.id]
        is_withdrawn = row.cancel_requested_at is not None
        return request.status is not ApprovalStatus.PENDING or request.expires_at <= now or is_withdrawn
