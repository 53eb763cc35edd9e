"""An in-memory `ports.Store`: what `toolsys/sql/` does, one method a commit point, over `memory_tables`.

It passes the same contract suite as the real store, so the model search may stand on it. Not thread-safe: whoever
uses it runs one actor at a time. The probe is told of the same points as the real store's.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from tests.contract.memory_tables import ApprovalRow, CallRow, StepRow, Tables
from toolsys import attempts, steps
from toolsys.domain.calls import (
    Approval,
    BoundedOutput,
    Claim,
    Disposition,
    Facts,
    Invocation,
    Progress,
    ProposedCall,
    Retry,
    RunFacts,
    StepFacts,
)
from toolsys.domain.repetition import RESTARTS_LIMIT, Alarm
from toolsys.domain.states import ApprovalStatus, InvocationStatus, PolicyVerdict, RunStatus
from toolsys.leases import SETTLE_SECONDS
from toolsys.ports import Case, Clock, Fence, Ids, Limits, Probe
from toolsys.problems import Problem

SETTLE = timedelta(seconds=SETTLE_SECONDS)
RUNNING, AUTHORIZED, WAITING = (
    InvocationStatus.RUNNING, InvocationStatus.AUTHORIZED, InvocationStatus.WAITING_FOR_APPROVAL,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MemoryStore:
    """Implements `ports.Store`. `clock` is the process's own; the tables' clock is the one that decides."""

    tables: Tables
    clock: Clock
    ids: Ids
    limits: Limits
    probe: Probe
    worker: str

    # -- facts

    def read_facts(self, call: ProposedCall) -> Facts:
        db, now = self.tables, self.tables.clock.now()
        run = db.runs.get(call.run_id)
        if run is None or call.tenant_id != db.tenant_id:
            raise Problem("request.not_found")
        step = db.steps.get((run.id, call.step.number))
        row = db.find(run.id, call.step.number, call.call_id)
        request = db.approvals.get(row.id) if row is not None else None
        return Facts(
            tenant_id=db.tenant_id, authz_epoch=db.authz_epoch, database_epoch=db.database_epoch, now=now,
            is_platform_enabled=db.is_platform_enabled, is_tenant_enabled=db.is_tenant_enabled,
            is_tool_calling_enabled=db.is_tool_calling_enabled,
            run=RunFacts(run.id, run.status, run.deadline_at, run.deadline_at <= now,
                         run.cancel_requested_at is not None, run.manifest, run.delivered_trust, self._alarms(run.id),
                         self._previous_step(run.id, call.step.number),
                         None if run.call_budget is None else max(run.call_budget - run.calls_begun, 0)),
            session=db.session, agent=db.agent, principal=db.principal, key=db.key,
            step=StepFacts(step.id, step.body_hash, step.origin_trust, step.parallel_group) if step else None,
            invocation=self._invocation(row, now) if row else None,
            approval=_approval(request, now) if request else None,
        )  # fmt: skip

    def _alarms(self, run_id: UUID) -> tuple[Alarm, ...]:
        unknown, denied = InvocationStatus.UNCERTAIN, InvocationStatus.DENIED
        found = [
            row for row in self.tables.of_run(run_id)
            if (row.identical_count >= 4 or row.status in {denied, unknown}) and row.id not in self.tables.not_happened
        ]  # fmt: skip
        weighty_first = sorted(found, key=lambda row: (row.status is not unknown, row.identical_count < 4))
        return tuple(
            Alarm(row.tool_name, row.arguments_hash, row.outcome_status, row.reason_code, row.identical_count,
                  row.step.number)
            for row in sorted(weighty_first[:200], key=lambda row: row.id, reverse=True)
        )  # fmt: skip

    def _previous_step(self, run_id: UUID, number: int) -> int | None:
        return max((known for owner, known in self.tables.steps if owner == run_id and known < number), default=None)

    def _invocation(self, row: CallRow, now: datetime) -> Invocation:
        return Invocation(
            id=row.id, status=row.status, tool_name=row.tool_name, tool_version=row.tool_version,
            arguments_hash=row.arguments_hash, idempotency_key=row.idempotency_key,
            classification=row.classification, claim_epoch=row.claim_epoch, is_lease_live=row.has_live_lease(now),
            effect_sent_at=row.effect_sent_at, attempt_number=row.attempt_number,
            verdict=row.verdict or PolicyVerdict.BLOCK, outcome_status=row.outcome_status,
            reason_code=row.reason_code, suspended_kind=row.suspended_kind,
            cancel_requested_at=row.cancel_requested_at,
            predates_database_epoch=row.database_epoch < self.tables.database_epoch,
        )  # fmt: skip

    # -- a new call

    def commit_refusal(self, case: Case, reason_code: str, detail: str) -> Disposition:
        if case.row is not None:
            return self._end(case, case.row, attempts.unrecorded_code(case, reason_code))
        status = steps.outcome_status(reason_code)
        written = Disposition(case.call.invocation_id, Progress.SETTLED, status, reason_code)
        return self._propose(case, status.invocation_status, written, "refusal")

    def commit_hold(self, case: Case) -> Disposition:
        return self._propose(case, WAITING, Disposition(case.call.invocation_id, Progress.HELD), "hold")

    def commit_intent(self, case: Case) -> Invocation | Disposition:
        row = case.row
        if row is None:
            written = Disposition(case.call.invocation_id, Progress.HANDED_OFF)
            answer = self._propose(case, AUTHORIZED, written, "intent")
            return self._new_row(case) if answer is written else answer
        if row.status is not WAITING:
            return row
        self.probe.reached("before_intent", case.call.name)
        is_consumed = case.is_recorded = self._consume(case, self.tables.calls[row.id])
        self.probe.reached("after_intent", case.call.name)
        return row if is_consumed else Disposition(row.id, Progress.STALE)

    def _propose(self, case: Case, status: InvocationStatus, written: Disposition, point: str) -> Disposition:
        self.probe.reached(f"before_{point}", case.call.name)
        answer = self._insert(case, status, written)
        case.is_recorded = answer == "written"
        self.probe.reached(f"after_{point}", case.call.name)
        if answer == "conflict":
            raise Problem("step.conflict")
        return written if answer == "written" else Disposition(case.call.invocation_id, Progress.STALE)

    def _insert(self, case: Case, status: InvocationStatus, written: Disposition) -> str:
        db, call, run = self.tables, case.call, self.tables.runs[case.call.run_id]
        if run.cancel_requested_at is not None and status in {AUTHORIZED, WAITING}:
            return "stale"
        is_counted = run.call_budget is not None and status in {AUTHORIZED, WAITING}
        if is_counted and run.calls_begun >= (run.call_budget or 0):
            return "stale"
        grant = case.decision.grant if case.decision is not None and status is AUTHORIZED else None
        if not db.may_use(grant):
            return "stale"
        step = db.steps.setdefault((run.id, call.step.number), self._step(case))
        if step.body_hash != call.step.body_hash:
            return "conflict"
        row = self._row(case, status, step)
        taken = {other.idempotency_key for other in db.calls.values()}
        if db.find(run.id, step.number, call.call_id) is not None or row.idempotency_key in taken:
            return "duplicate"
        db.calls[row.id] = row
        run.calls_begun += is_counted
        db.use(grant, row)
        db.emit(row, "tool.call.proposed", f"proposed:{row.id}")
        if case.decision is not None:
            db.decisions.append((row.id, case.decision.verdict))
        if call.raw_hash is None:
            db.payloads.add((row.id, "arguments"))
        self._begin(case, row, written)
        return "written"

    def _begin(self, case: Case, row: CallRow, written: Disposition) -> None:
        """What follows from the status of a new row."""
        if row.status is AUTHORIZED:
            self.tables.emit(row, "tool.call.authorized", f"authorized:{row.id}")
        elif row.status is WAITING:
            self._ask(case, row)
        else:
            row.outcome_status, row.reason_code, row.completed_at = (
                written.outcome_status, written.reason_code, row.created_at,
            )  # fmt: skip
            self.tables.emit(row, f"tool.call.{row.status}", f"settled:{row.id}")
            self._close(row.step)
            self._break_run(row)

    def _new_row(self, case: Case) -> Invocation:
        """What this process wrote, not what others have made of it since."""
        assert case.normalized is not None
        assert case.decision is not None
        return Invocation(
            id=case.call.invocation_id, status=AUTHORIZED, tool_name=case.spec.name, tool_version=case.spec.version,
            arguments_hash=case.normalized.arguments_hash, idempotency_key=case.normalized.idempotency_key,
            classification=case.classification, claim_epoch=0, is_lease_live=False, effect_sent_at=None,
            attempt_number=1, verdict=case.decision.verdict,
        )  # fmt: skip

    def _step(self, case: Case) -> StepRow:
        draft = case.call.step
        return StepRow(
            draft.id, case.call.run_id, draft.number, draft.body_hash, case.origin_trust, draft.parallel_group,
            draft.call_count, self.tables.clock.now(),
        )  # fmt: skip

    def _row(self, case: Case, status: InvocationStatus, step: StepRow) -> CallRow:
        spec = case.tool.spec if case.tool is not None else None
        keyed, name, now = steps.keyed(case), steps.recorded_name(case), self.tables.clock.now()
        identical = [
            other.identical_count
            for other in self.tables.of_run(case.call.run_id)
            if (other.tool_name, other.arguments_hash) == (name, keyed.arguments_hash)
        ]
        return CallRow(
            id=case.call.invocation_id, step=step, call_id=case.call.call_id,
            tool_name=name, identical_count=1 + (identical[0] if identical else 0),
            tool_version=spec.version if spec else "", arguments_hash=keyed.arguments_hash,
            idempotency_key=keyed.idempotency_key, classification=case.classification,
            timeout_seconds=float(spec.timeout_seconds) if spec else 0.0,
            verdict=case.decision.verdict if case.decision else None, status=status,
            authz_epoch=case.facts.authz_epoch, database_epoch=case.facts.database_epoch, created_at=now,
            dispatch_after=now + timedelta(seconds=self.limits.dispatch_grace_seconds),
        )  # fmt: skip

    def _ask(self, case: Case, row: CallRow) -> None:
        assert case.terms is not None
        assert case.decision is not None
        run, expires = self.tables.runs[case.call.run_id], timedelta(seconds=case.terms.expires_seconds)
        request = ApprovalRow(
            self.ids.uuid(), steps.approval_digest(case), case.decision.verdict, case.terms,
            min(run.deadline_at, row.created_at + expires),
        )  # fmt: skip
        self.tables.approvals[row.id] = request
        self.tables.emit(row, "approval.requested", f"approval.requested:{row.id}")
        self._run_waits(run.id)

    def _consume(self, case: Case, row: CallRow) -> bool:
        db, now, request = self.tables, self.tables.clock.now(), self.tables.approvals[row.id]
        if row.status is not WAITING or row.cancel_requested_at is not None:
            return False
        is_usable = request.status is ApprovalStatus.APPROVED and request.digest == steps.approval_digest(case)
        if not is_usable or request.consume_by is None or request.consume_by <= now or not request.held:
            return False
        assert case.decision is not None
        request.status = ApprovalStatus.CONSUMED
        db.decisions.append((row.id, case.decision.verdict))
        row.status, row.authz_epoch = AUTHORIZED, case.facts.authz_epoch
        row.dispatch_after = now + timedelta(seconds=self.limits.dispatch_grace_seconds)
        db.emit(row, "tool.call.authorized", f"authorized:{row.id}")
        self._run_waits(row.step.run_id)
        return True

    # -- claim, fence, lease

    def commit_claim(self, case: Case, row: Invocation) -> Claim | Disposition:
        before = self.clock.boottime()
        self.probe.reached("before_claim", case.call.name)
        answer = self._take(case, self.tables.calls[row.id], row.claim_epoch, before)
        self.probe.reached("after_claim", case.call.name)
        if isinstance(answer, Claim):
            return answer
        if answer in {"spent", "cancelled"}:
            code = "tool.claims_spent" if answer == "spent" else "tool.cancelled"
            return self._end(case, row, attempts.unrecorded_code(case, code))
        return Disposition(row.id, Progress.IN_FLIGHT)

    def _take(self, case: Case, row: CallRow, epoch: int, before: float) -> Claim | str:
        """Claim the row, or say why not."""
        now = self.tables.clock.now()
        is_free = row.status is AUTHORIZED or (row.status is RUNNING and not row.has_live_lease(now))
        if row.claim_epoch != epoch or row.suspended_kind is not None or not is_free:
            return "lost"
        if row.claim_epoch >= self.limits.max_claims:
            return "spent"
        if row.cancel_requested_at is not None:
            return "cancelled"
        if row.not_before is not None and row.not_before > now:
            return "early"
        if sum(other.has_live_lease(now) for other in self.tables.calls.values()) >= self.limits.claim_cap_per_tenant:
            row.dispatch_after = now + timedelta(seconds=1)
            return "capped"
        if row.step.parallel_group is not None and self._running_in(row.step, now) >= self.limits.parallel_cap:
            row.dispatch_after = now + timedelta(seconds=1)
            return "capped"
        row.status, row.claimed_by, row.claim_epoch = RUNNING, self.worker, row.claim_epoch + 1
        row.lease_expires_at = now + timedelta(seconds=self.limits.lease_seconds)
        row.operation_deadline = min(case.facts.run.deadline_at, now + timedelta(seconds=row.timeout_seconds))
        row.authz_epoch, row.dispatch_after = case.facts.authz_epoch, None
        if not case.is_recorded:
            assert case.decision is not None
            self.tables.decisions.append((row.id, case.decision.verdict))
        self.tables.emit(row, "tool.call.started", f"started:{row.id}:{row.claim_epoch}")
        return Claim(
            invocation_id=row.id, tenant_id=case.call.tenant_id, tool_name=case.spec.name, epoch=row.claim_epoch,
            authz_epoch=case.facts.authz_epoch, lease_seconds=self.limits.lease_seconds, claimed_at_boottime=before,
            operation_deadline=row.operation_deadline,
            remaining_seconds=max((row.operation_deadline - now).total_seconds(), 0.0),
            effect_sent_at=row.effect_sent_at, attempt_number=row.attempt_number,
        )  # fmt: skip

    def _running_in(self, step: StepRow, now: datetime) -> int:
        return sum(row.has_live_lease(now) for row in self.tables.of_step(step))

    def commit_watermark(self, claim: Claim) -> Fence:
        self.probe.reached("before_watermark", claim.tool_name)
        why = self._fence(claim, self.tables.calls[claim.invocation_id])
        self.probe.reached("after_watermark", claim.tool_name)
        return Fence(why == "held", why)

    def _fence(self, claim: Claim, row: CallRow) -> str:
        db, now = self.tables, self.tables.clock.now()
        if db.authz_epoch != claim.authz_epoch:
            return "authz_epoch"
        if db.runs[row.step.run_id].cancel_requested_at is not None or row.cancel_requested_at is not None:
            return "cancelled"
        if not db.is_platform_enabled:
            return "switch"
        is_in_time = row.operation_deadline is not None and row.operation_deadline > now
        if row.claim_epoch != claim.epoch or not row.has_live_lease(now) or not is_in_time:
            return "lost"
        row.effect_sent_at = row.effect_sent_at or now
        return "held"

    def renew(self, claims: Collection[Claim], lease_seconds: float) -> set[UUID]:
        """The heartbeat's statement: live leases only, until the operation deadline and two seconds past it."""
        now, renewed = self.tables.clock.now(), set()
        for claim in claims:
            row = self.tables.calls[claim.invocation_id]
            if row.operation_deadline is None or row.operation_deadline <= now:
                continue
            if row.claim_epoch == claim.epoch and row.has_live_lease(now):
                reach = min(now + timedelta(seconds=lease_seconds), row.operation_deadline + SETTLE)
                row.lease_expires_at = max(row.lease_expires_at or reach, reach)
                renewed.add(row.id)
        return renewed

    def commit_release(self, claim: Claim, retry: Retry) -> bool:
        self.probe.reached("before_release", claim.tool_name)
        row = self.tables.calls[claim.invocation_id]
        is_mine = row.claim_epoch == claim.epoch and row.status is RUNNING
        if is_mine:
            row.status, row.claimed_by, row.lease_expires_at, row.operation_deadline = AUTHORIZED, None, None, None
            row.dispatch_after = row.not_before = self.tables.clock.now() + timedelta(seconds=retry.wait_seconds)
            row.attempt_number = retry.attempt_number
        self.probe.reached("after_release", claim.tool_name)
        return is_mine

    # -- endings

    def commit_result(self, case: Case) -> Disposition:
        assert case.claim is not None
        assert case.output is not None
        output = case.output
        self.probe.reached("before_result", case.call.name)
        is_ended = self._settle(
            self.tables.calls[case.claim.invocation_id], case.claim.epoch, RUNNING, output.reason_code, output
        )
        self.probe.reached("after_result", case.call.name)
        if not is_ended:
            return Disposition(case.claim.invocation_id, Progress.STALE)
        return Disposition(case.claim.invocation_id, Progress.SETTLED, output.outcome_status, output.reason_code)

    def _end(self, case: Case, row: Invocation, code: str) -> Disposition:
        """End a known row without holding its claim."""
        self.probe.reached("before_settlement", case.call.name)
        is_ended = self._settle(self.tables.calls[row.id], row.claim_epoch, row.status, code, None)
        self.probe.reached("after_settlement", case.call.name)
        if not is_ended:
            return Disposition(row.id, Progress.STALE)
        return Disposition(row.id, Progress.SETTLED, steps.outcome_status(code), code)

    def _settle(
        self, row: CallRow, epoch: int, source: InvocationStatus, code: str, output: BoundedOutput | None
    ) -> bool:
        """Compare-and-set on status and epoch; with `output` by who holds the claim."""
        db, now = self.tables, self.tables.clock.now()
        if row.claim_epoch != epoch or row.status is not source or (output is None and row.has_live_lease(now)):
            return False
        status = steps.outcome_status(code) if output is None else output.outcome_status
        row.status, row.outcome_status, row.reason_code = status.invocation_status, status, code
        row.completed_at, row.lease_expires_at, row.dispatch_after = now, None, None
        if output is not None and output.payload:
            db.payloads.add((row.id, "result"))
        if source is WAITING:
            self._give_up(db.approvals[row.id], row, now)
        row.evidence = output.evidence if output is not None else None
        self._restart_count(row)
        run = db.runs[row.step.run_id]
        if output is not None:
            run.delivered_trust = run.delivered_trust.stricter(output.trust)
        kind = "completed" if row.status is InvocationStatus.SUCCEEDED else row.status
        db.emit(row, f"tool.call.{kind}", f"settled:{row.id}")
        self._close(row.step)
        self._break_run(row)
        return True

    def _restart_count(self, row: CallRow) -> None:
        """New evidence: the result shows something else than the identical call before it."""
        run = self.tables.runs[row.step.run_id]
        earlier = [
            other.evidence
            for other in self.tables.of_run(run.id)
            if other.id < row.id and other.evidence is not None
            and (other.tool_name, other.arguments_hash) == (row.tool_name, row.arguments_hash)
        ]  # fmt: skip
        is_new = bool(earlier) and row.evidence is not None and earlier[0] != row.evidence
        if is_new and row.identical_count > 1 and run.evidence_restarts < RESTARTS_LIMIT:
            run.evidence_restarts += 1
            row.identical_count = 1

    def _break_run(self, row: CallRow) -> None:
        if row.reason_code == "tool.policy_denied":
            self.tables.fail_run(row.step.run_id, row.reason_code)

    def _give_up(self, request: ApprovalRow, row: CallRow, now: datetime) -> None:
        if request.status is ApprovalStatus.PENDING and request.expires_at <= now:
            request.status = ApprovalStatus.EXPIRED
        elif request.status in {ApprovalStatus.PENDING, ApprovalStatus.APPROVED}:
            request.status = ApprovalStatus.VOIDED
        if request.status in {ApprovalStatus.EXPIRED, ApprovalStatus.VOIDED}:
            self.tables.emit(row, f"approval.{request.status}", f"approval.ended:{row.id}")
        self._run_waits(row.step.run_id)

    def _close(self, step: StepRow) -> None:
        ended = [row for row in self.tables.of_step(step) if row.status.is_terminal]
        if step.completed_at is None and len(ended) == step.call_count:
            step.completed_at = self.tables.clock.now()

    def _run_waits(self, run_id: UUID) -> None:
        run = self.tables.runs[run_id]
        held = any(row.status is WAITING for row in self.tables.calls.values() if row.step.run_id == run_id)
        if run.status in {RunStatus.RUNNING, RunStatus.WAITING_FOR_APPROVAL}:
            run.status = RunStatus.WAITING_FOR_APPROVAL if held else RunStatus.RUNNING


def _approval(request: ApprovalRow, now: datetime) -> Approval:
    is_consumable = (
        request.status is ApprovalStatus.APPROVED and request.consume_by is not None and request.consume_by > now
    )
    return Approval(
        id=request.id, status=request.status, digest=request.digest, verdict=request.verdict,
        is_expired=request.expires_at <= now, is_consumable=is_consumable, seats=request.terms.seats,
        held=request.held, rejection_code=request.rejection_code,
    )  # fmt: skip
