"""The only writer of invocations: one method per commit point, each one SQL function in one round trip.

It translates between the pipeline's values and the functions under `toolsys/sql/`; it decides nothing. After each
commit the crash probe is told the point's name. Used through `ports.Store`, by the pipeline only.
"""

import logging
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import DatabaseError, InterfaceError, OperationalError

from toolsys import attempts, database, steps, telemetry, trace
from toolsys.domain import canonical, redaction
from toolsys.domain.calls import Claim, Disposition, Facts, Invocation, Progress, ProposedCall, Retry
from toolsys.domain.spec import JsonObject
from toolsys.domain.states import InvocationStatus, OutcomeStatus
from toolsys.facts import Standing, facts_from, session_of, standing_from
from toolsys.kept import Kept
from toolsys.ports import Case, Clock, Fence, Ids, Limits, Probe, Sealer
from toolsys.problems import Problem

log = logging.getLogger("toolsys.store")
STANDINGS_KEPT: Final = 4096
# What a budget of calls counts.
BEGUN: Final = frozenset({InvocationStatus.AUTHORIZED, InvocationStatus.WAITING_FOR_APPROVAL})
SETTLE_PAUSE_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class SqlStore:
    """Implements `ports.Store` over PostgreSQL. `worker` names this process in claims."""

    sealer: Sealer
    clock: Clock
    ids: Ids
    limits: Limits
    probe: Probe
    worker: str
    standings: Kept[Standing] = field(default_factory=lambda: Kept(STANDINGS_KEPT))

    def read_facts(self, call: ProposedCall) -> Facts:
        """Transaction: its own. Raises: Problem (request.not_found)."""
        found = call.prefetched
        if found is None:
            rows = database.call(
                "SELECT toolsys_facts(%s, %s, %s, %s)", (call.tenant_id, call.run_id, call.step.number, call.call_id)
            )
            found = database.from_json(rows[0][0])
        if found is None:
            raise Problem("request.not_found")
        return facts_from(call.tenant_id, found, self._standing(call, found))

    def _standing(self, call: ProposedCall, found: JsonObject) -> Standing:
        """Read who acts once per authorization epoch: every change to them raises it, by trigger."""
        key = (call.tenant_id, found["authz_epoch"], session_of(found), call.api_key_id)
        standing = self.standings.get(key)
        if standing is None:
            rows = database.call("SELECT toolsys_standing(%s, %s, %s)", (call.tenant_id, key[2], key[3]))
            read = database.from_json(rows[0][0])
            if read is None:
                raise Problem("request.not_found")
            standing = self.standings.put(key, standing_from(read))
        return standing

    def commit_refusal(self, case: Case, reason_code: str, detail: str) -> Disposition:
        """Write the terminal row of a refused call, new or already known."""
        if case.row is not None:
            code = attempts.unrecorded_code(case, reason_code)
            ending = self._ending(case.row, code, f"{reason_code}: {detail}")
            ending["decision"] = self._decision(case) if case.decision is not None else None
            return self._settle(case, ending, holds_claim=False)
        status = steps.outcome_status(reason_code)
        row = self._row(case, status.invocation_status) | {
            "outcome_status": status, "reason_code": reason_code, "error": {"detail": redaction.redact_text(detail)},
            "output_trust": "platform",
        }  # fmt: skip
        return self._propose(case, row, Disposition(case.call.invocation_id, Progress.SETTLED, status, reason_code))

    def commit_hold(self, case: Case) -> Disposition:
        assert case.terms is not None
        assert case.decision is not None
        assert case.tool is not None
        approval = {
            "id": self.ids.uuid(), "verdict": case.decision.verdict, "digest": steps.approval_digest(case),
            "seats": list(case.terms.seats), "expires_seconds": case.terms.expires_seconds,
            "consume_seconds": case.terms.consume_seconds, "votes": [], "tool_digest": steps.tool_digest(case),
            "binding": case.tool.binding,
        }  # fmt: skip
        row = self._row(case, InvocationStatus.WAITING_FOR_APPROVAL)
        return self._propose(case, row, Disposition(case.call.invocation_id, Progress.HELD), approval=approval)

    def commit_intent(self, case: Case) -> Invocation | Disposition:
        """Persist the intent: a new row, a held one whose approval is consumed, or one that is remembered."""
        row = case.row
        if row is None:
            written = self._propose(
                case, self._row(case, InvocationStatus.AUTHORIZED),
                Disposition(case.call.invocation_id, Progress.HANDED_OFF),
            )  # fmt: skip
            return self._new_row(case) if written.state is Progress.HANDED_OFF else written
        if row.status is not InvocationStatus.WAITING_FOR_APPROVAL:
            return row
        answer = self._call(
            "intent", case.call.name, "SELECT toolsys_commit_approved_intent(%s, %s)",
            (case.call.tenant_id, database.as_json({
                "id": row.id, "digest": steps.approval_digest(case), "decision": self._decision(case),
                "authz_epoch": case.facts.authz_epoch, "grace": self.limits.dispatch_grace_seconds,
                "trace": trace.taken(),
            })),
        )  # fmt: skip
        case.is_recorded = "stale" not in answer
        return row if case.is_recorded else Disposition(row.id, Progress.STALE)

    def commit_claim(self, case: Case, row: Invocation) -> Claim | Disposition:
        before = self.clock.boottime()
        answer = self._call(
            "claim", case.call.name, "SELECT toolsys_commit_claim(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (case.call.tenant_id, row.id, row.claim_epoch, self.worker, self.limits.lease_seconds,
             case.facts.authz_epoch, case.facts.run.deadline_at, self.limits.max_claims,
             self.limits.claim_cap_per_tenant, self.limits.parallel_cap,
             None if case.is_recorded else database.as_json(self._decision(case))),
        )  # fmt: skip
        match answer.get("refused"):
            case None:
                return self._claim(case, row, answer, before)
            case "spent":
                return self._spend(case, row)
            case "cancelled":
                return self._settle(
                    case, self._ending(row, attempts.unrecorded_code(case, "tool.cancelled"), ""), holds_claim=False
                )
            case _:
                return Disposition(row.id, Progress.IN_FLIGHT)

    def commit_watermark(self, claim: Claim) -> Fence:
        """Raises: DatabaseError, and then nothing may be sent: whether it committed could not be read back."""
        statement = "SELECT to_jsonb(toolsys_commit_watermark(%s, %s, %s, %s))"
        parameters = (claim.tenant_id, claim.invocation_id, claim.epoch, claim.authz_epoch)
        try:
            answer = self._call("watermark", claim.tool_name, statement, parameters)
        except (OperationalError, InterfaceError):
            # The statement keeps the first time and asks for every condition again: to repeat it is to read it back.
            database.discard_connection()
            answer = self._call("watermark", claim.tool_name, statement, parameters)
        return Fence(answer == "held", answer)

    def commit_release(self, claim: Claim, retry: Retry) -> bool:
        return bool(self._call(
            "release", claim.tool_name, "SELECT to_jsonb(toolsys_commit_release(%s, %s, %s, %s, %s, %s, %s))",
            (claim.tenant_id, claim.invocation_id, claim.epoch, retry.wait_seconds, retry.attempt_number,
             database.as_json(retry.error) if retry.error else None, database.as_json(trace.taken())),
        ))  # fmt: skip

    def commit_result(self, case: Case) -> Disposition:
        """Step 13: the terminal row, its payload, its event, in one transaction, fenced by the claim's epoch."""
        output, claim = case.output, case.claim
        assert output is not None
        assert claim is not None
        settlement = {
            "id": claim.invocation_id, "epoch": claim.epoch, "from": "running", "holds_claim": True,
            "status": output.outcome_status.invocation_status, "outcome_status": output.outcome_status,
            "reason_code": output.reason_code, "output_bytes": output.output_bytes, "truncated": output.truncated,
            "artifact_id": output.artifact_id, "output_trust": output.trust, "result": output.redacted,
            "error": {"detail": redaction.redact_text(output.error_detail)} if output.error_detail else None,
            "lowers_trust": output.trust.rank > case.facts.run.delivered_trust.rank, "evidence": output.evidence,
        }  # fmt: skip
        if not case.classification.side_effect.is_write:
            return self._settle(case, settlement, holds_claim=True, payload=output.payload)
        return self._settle_write(case, claim, settlement, output.payload)

    def _settle_write(self, case: Case, claim: Claim, settlement: JsonObject, payload: JsonObject) -> Disposition:
        """A write that ran is recorded, or nothing is reported (AUD): try for one lease, then mark it and its run."""
        until, pause = self.clock.boottime() + self.limits.lease_seconds, SETTLE_PAUSE_SECONDS
        while True:
            try:
                return self._settle(case, dict(settlement), holds_claim=True, payload=payload)
            except DatabaseError as error:
                log.error("the result of a write could not be stored (%s)", type(error).__name__)
                database.discard_connection()
                if self.clock.boottime() + pause >= until:
                    break
            time.sleep(pause)
            pause *= 2
        self._call(
            "unrecorded", claim.tool_name, "SELECT to_jsonb(toolsys_commit_unrecorded(%s, %s, %s))",
            (claim.tenant_id, claim.invocation_id, claim.epoch),
        )  # fmt: skip
        return Disposition(claim.invocation_id, Progress.IN_FLIGHT)

    # -- what the statements are made of

    def _propose(
        self, case: Case, row: JsonObject, written: Disposition, approval: JsonObject | None = None
    ) -> Disposition:
        call, step = case.call, case.call.step
        data = steps.argument_bytes(case)
        proposal: JsonObject = {
            "run_id": call.run_id, "grace": self.limits.dispatch_grace_seconds, "row": row,
            "arguments_digest": self.sealer.digest(data) if data is not None else None,
            "step": {
                "id": step.id, "run_id": call.run_id, "step_number": step.number, "body_hash": step.body_hash,
                "call_count": step.call_count, "context_trust": list(step.context_trust),
                "origin_trust": case.origin_trust, "parallel_group": step.parallel_group,
                "correlation_id": step.correlation_id, "api_key_id": call.api_key_id,
            },
        }  # fmt: skip
        if case.decision is not None:
            decision = self._decision(case)
            proposal["decision"] = decision
            row["policy_decision_id"] = decision["id"]
            if case.decision.grant is not None and row["status"] == InvocationStatus.AUTHORIZED:
                proposal["grant"] = case.decision.grant
        if case.facts.run.calls_left is not None and row["status"] in BEGUN:
            proposal["is_counted"] = True
        if approval is not None:
            proposal["approval"] = approval
        point = {"authorized": "intent", "waiting_for_approval": "hold"}.get(row["status"], "refusal")
        sealed = None if data is None else self.sealer.seal(
            data, tenant_id=call.tenant_id, kind="arguments", row=call.invocation_id
        )  # fmt: skip
        answer = self._call(
            point, call.name, "SELECT toolsys_commit_proposal(%s, %s, %s, %s)",
            (call.tenant_id, database.as_json(proposal), step.body if call.call_index == 0 else None, sealed),
        )  # fmt: skip
        if "conflict" in answer:
            raise Problem("step.conflict")
        case.is_recorded = "id" in answer
        telemetry.described(case)
        if case.is_recorded and written.outcome_status is not None:
            telemetry.settled(case, written.outcome_status, row["reason_code"], None)
        return written if case.is_recorded else Disposition(call.invocation_id, Progress.STALE)

    def _row(self, case: Case, status: InvocationStatus) -> JsonObject:
        call = case.call
        spec = case.tool.spec if case.tool is not None else None
        keyed = steps.keyed(case)
        return {
            "id": call.invocation_id, "run_id": call.run_id, "session_id": case.facts.session.id,
            "api_key_id": call.api_key_id, "step_number": call.step.number, "call_id": call.call_id,
            "call_index": call.call_index, "tool_name": steps.recorded_name(case),
            "tool_version": spec.version if spec else "", "tool_source": spec.source if spec else "builtin",
            "server_id": spec.server_id if spec else None,
            "arguments": redaction.redact(case.arguments if case.arguments is not None else call.arguments) or {},
            "normalized_arguments_hash": keyed.arguments_hash, "idempotency_key": keyed.idempotency_key,
            "status": status, "verdict": case.decision.verdict if case.decision else None,
            "side_effect": case.classification.side_effect, "risk": case.classification.risk,
            "idempotency_class": case.classification.idempotency, "argument_trust": call.argument_trust,
            "timeout_seconds": float(spec.timeout_seconds) if spec else 0.0, "truncated": False,
            "attempt_number": 1, "claim_epoch": 0, "authz_epoch": case.facts.authz_epoch,
            "database_epoch": case.facts.database_epoch, "step_trace": trace.taken(),
        }  # fmt: skip

    def _decision(self, case: Case) -> JsonObject:
        decision, facts = case.decision, case.facts
        assert decision is not None
        return {
            "id": self.ids.uuid(), "run_id": case.call.run_id,
            "invocation_id": case.row.id if case.row else case.call.invocation_id,
            "verdict": decision.verdict, "reason_code": decision.reason_code, "risk": decision.risk,
            "rule": decision.rule, "matched": decision.matched, "authz_epoch": facts.authz_epoch,
            "trust": {"origin": case.origin_trust, "arguments": case.call.argument_trust},
            "user_context": {"principal": str(facts.principal.id), "agent": facts.agent.name,
                             "profile": facts.session.profile, "environment": facts.session.environment},
        }  # fmt: skip

    def _new_row(self, case: Case) -> Invocation:
        assert case.normalized is not None
        assert case.decision is not None
        return Invocation(
            id=case.call.invocation_id, status=InvocationStatus.AUTHORIZED, tool_name=case.spec.name,
            tool_version=case.spec.version, arguments_hash=case.normalized.arguments_hash,
            idempotency_key=case.normalized.idempotency_key, classification=case.classification, claim_epoch=0,
            is_lease_live=False, effect_sent_at=None, attempt_number=1, verdict=case.decision.verdict,
        )  # fmt: skip

    def _claim(self, case: Case, row: Invocation, answer: JsonObject, before: float) -> Claim:
        sent = answer["effect_sent_at"]
        telemetry.described(case)
        return Claim(
            invocation_id=row.id, tenant_id=case.call.tenant_id, tool_name=case.spec.name, epoch=answer["epoch"],
            authz_epoch=case.facts.authz_epoch, lease_seconds=self.limits.lease_seconds, claimed_at_boottime=before,
            operation_deadline=datetime.fromisoformat(answer["operation_deadline"]),
            remaining_seconds=max(float(answer["remaining"]), 0.0),
            effect_sent_at=datetime.fromisoformat(sent) if sent else None, attempt_number=answer["attempt_number"],
        )  # fmt: skip

    def _ending(self, row: Invocation, code: str, detail: str) -> JsonObject:
        status = steps.outcome_status(code)
        return {
            "id": row.id, "epoch": row.claim_epoch, "from": row.status, "holds_claim": False,
            "status": status.invocation_status, "outcome_status": status, "reason_code": code,
            "error": {"detail": redaction.redact_text(detail)} if detail else None, "output_trust": "platform",
        }  # fmt: skip

    def _spend(self, case: Case, row: Invocation) -> Disposition:
        code = attempts.unrecorded_code(case, "tool.claims_spent")
        return self._settle(case, self._ending(row, code, f"claimed {row.claim_epoch} times"), holds_claim=False)

    def _settle(
        self, case: Case, settlement: JsonObject, *, holds_claim: bool, payload: JsonObject | None = None
    ) -> Disposition:
        row_id: UUID = settlement["id"]
        data = canonical.dump(canonical.tidy(payload)) if payload else None
        sealed = None
        if data is not None:
            sealed = self.sealer.seal(data, tenant_id=case.call.tenant_id, kind="result", row=row_id)
            settlement["result_digest"] = self.sealer.digest(data)
        settlement["trace"] = trace.taken()
        known = {key: value for key, value in settlement.items() if value is not None}
        ended = self._call(
            "result" if holds_claim else "settlement", case.call.name,
            "SELECT to_jsonb(toolsys_commit_settlement(%s, %s, %s))",
            (case.call.tenant_id, database.as_json(known), sealed),
        )  # fmt: skip
        telemetry.described(case)
        if not ended:
            return Disposition(row_id, Progress.STALE)
        status, code = OutcomeStatus(settlement["outcome_status"]), settlement["reason_code"]
        since = case.claim.claimed_at_boottime if case.claim is not None else None
        telemetry.settled(case, status, code, None if since is None else self.clock.boottime() - since)
        return Disposition(row_id, Progress.SETTLED, status, code)

    def _call(self, point: str, tool_name: str, statement: str, parameters: tuple[Any, ...]) -> Any:
        self.probe.reached(f"before_{point}", tool_name)
        answer = database.from_json(database.call(statement, parameters)[0][0])
        self.probe.reached(f"after_{point}", tool_name)
        return answer
