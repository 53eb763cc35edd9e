"""Each step of the pipeline as a small function: values in; a value, or `Refused`, out.

No ORM, clock, randomness, settings or logging here. The order and the commits are `toolsys.pipeline`'s.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from toolsys import attempts, outputs, validation
from toolsys.domain import binding, canonical, idempotency, reasons, redaction, repetition, seats
from toolsys.domain.calls import Approval, BoundedOutput, Decision, Disposition, Progress, ProposedAction
from toolsys.domain.canonical import NotCanonical
from toolsys.domain.context import ExecutionTarget, Principal, ToolExecutionContext
from toolsys.domain.defaults import Overfilled
from toolsys.domain.results import TextPart, ToolFailure, ToolFailureKind, ToolResult
from toolsys.domain.seats import Seat
from toolsys.domain.spec import JsonObject
from toolsys.domain.states import ApprovalStatus, InvocationStatus, OutcomeStatus, PolicyVerdict
from toolsys.ports import (
    ApprovalDesk,
    ApprovalTerms,
    Case,
    Normalized,
    NotAvailable,
    PolicyGate,
    Runtime,
    Tool,
    ToolRegistry,
)
from toolsys.problems import Problem, Refused
from toolsys.trace import timed
from toolsys.validation import UnusableSchema


def standing_of(case: Case, runtime: Runtime) -> Disposition | None:
    """Say where the call stands if this process has nothing to do for it (TS "Deduplication on the way in").

    Raises: Problem (step.conflict): the step is known, with another body.
    """
    if case.facts.step is not None and case.facts.step.body_hash != case.call.step.body_hash:
        raise Problem("step.conflict")
    row = case.row
    if row is None:
        return None
    if row.status.is_terminal:
        return Disposition(row.id, Progress.SETTLED, row.outcome_status, row.reason_code, is_replay=True)
    if row.suspended_kind is not None or row.is_lease_live:
        return Disposition(row.id, Progress.IN_FLIGHT if row.is_lease_live else Progress.SUSPENDED)
    approval = case.facts.approval
    if row.status is InvocationStatus.WAITING_FOR_APPROVAL and approval is not None:
        undecided = approval.status is ApprovalStatus.PENDING and not approval.is_expired
        if undecided and not _is_withdrawn(case):
            return Disposition(row.id, Progress.HELD)
    if runtime.execution is None:
        waiting = row.status is InvocationStatus.WAITING_FOR_APPROVAL
        return Disposition(row.id, Progress.HELD if waiting else Progress.HANDED_OFF)
    return None


def admit(case: Case) -> None:
    """Refuse what its run no longer allows: a problem before the step exists, a terminal row after.

    Raises: Problem (run.not_open, run.expired, session.closed);
    Refused (tool.run_cancelled, tool.run_expired, tool.cancelled, tool.unreadable, tool.budget_spent).
    """
    facts, step = case.facts, case.facts.step
    if facts.run.is_cancelled:
        raise Refused("tool.run_cancelled") if step else Problem("run.not_open")
    if facts.run.is_expired:
        raise Refused("tool.run_expired") if step else Problem("run.expired")
    if not facts.run.status.accepts_steps:
        raise Refused("tool.run_cancelled") if step else Problem("run.not_open")
    if case.row is not None and case.row.cancel_requested_at is not None:
        raise Refused("tool.cancelled")
    if case.call.is_unreadable:
        raise Refused("tool.unreadable")
    if step is None and facts.session.is_closed:
        raise Problem("session.closed")
    if case.row is None and facts.run.calls_left == 0:
        raise Refused("tool.budget_spent", "the run has begun as many calls as its budget allows")


@timed(1)
def resolve_tool(case: Case, registry: ToolRegistry) -> Tool:
    """Find the pinned tool. Raises: Refused (policy.matrix.unknown_tool, tool.withdrawn)."""
    try:
        found = registry.resolve(case.call.name, case.facts)
    except NotAvailable as gone:
        raise Refused(gone.reason_code, gone.detail) from None
    if found is None:
        raise Refused("policy.matrix.unknown_tool", f"{case.call.name[:96]} is not in the session's pinned set")
    return found


def recognize_tool(case: Case, registry: ToolRegistry) -> Tool | None:
    """Find the tool of a row that is refused before step 1, so that a read is not taken for the strictest class."""
    try:
        return registry.resolve(case.call.name, case.facts) if case.row is not None else None
    except NotAvailable:
        return None


@timed(2)
def check_enabled(case: Case) -> None:
    """The agent's configuration as it is now, not as it was pinned. Raises: Refused (policy.agent.not_enabled)."""
    agent = case.facts.agent
    if not agent.is_enabled or not any(fnmatchcase(case.spec.name, glob) for glob in agent.enabled_tools):
        raise Refused("policy.agent.not_enabled", f"agent {agent.name}")


@timed(3)
def check_scopes(case: Case) -> None:
    """Key and principal both must hold every scope. Raises: Refused (policy.scope.missing)."""
    if not case.facts.key.is_live:
        raise Refused("policy.scope.missing", "the proposing key is revoked or expired")
    missing = case.spec.required_scopes - case.facts.scopes
    if missing:
        raise Refused("policy.scope.missing", f"missing {', '.join(sorted(missing))}")


@timed(4)
def validate_arguments(case: Case) -> JsonObject:
    """Apply the pinned schema's defaults and check: what is checked is what is hashed, shown, judged and sent.

    Raises: Refused (tool.arguments_invalid; tool.withdrawn for a pinned schema that this build no longer takes).
    """
    given, schema = case.call.arguments, case.spec.input_schema
    if case.call.raw_hash is not None or not isinstance(given, dict):
        raise Refused("tool.arguments_invalid", "the arguments have no canonical form, or are no object")
    try:
        arguments: JsonObject = canonical.normal_form(validation.with_defaults(schema, given))[0]
        errors = validation.argument_errors(schema, arguments)
    except UnusableSchema as error:
        raise Refused("tool.withdrawn", str(error)) from None
    except (NotCanonical, Overfilled) as error:
        raise Refused("tool.arguments_invalid", str(error)) from None
    if errors:
        raise Refused("tool.arguments_invalid", "; ".join(f"{e.pointer or '/'}: {e.message}" for e in errors))
    return arguments


@timed(5)
def normalize(case: Case) -> Normalized:
    """Canonical bytes, their hash, and the key. Raises: Refused (tool.arguments_invalid)."""
    assert case.arguments is not None
    try:
        data = canonical.canonical_bytes(case.arguments)
    except NotCanonical as error:
        raise Refused("tool.arguments_invalid", error.reason) from None
    return normalized(case, data, canonical.sha256_hex(data))


def normalized(case: Case, data: bytes, arguments_hash: str) -> Normalized:
    spec = case.tool.spec if case.tool is not None else None
    key = idempotency.idempotency_key(
        run_id=case.call.run_id,
        step_number=case.call.step.number,
        call_id=case.call.call_id,
        tool_name=spec.name if spec else case.call.name,
        tool_version=spec.version if spec else "",
        arguments_hash=arguments_hash,
    )
    return Normalized(data, arguments_hash, key)


def keyed(case: Case) -> Normalized:
    """Return step 5's result; a call refused earlier is keyed over its canonical arguments or its raw bytes."""
    if case.normalized is not None:
        return case.normalized
    data = argument_bytes(case)
    hashed = case.call.raw_hash if data is None else canonical.sha256_hex(data)
    return normalized(case, data or b"", hashed or canonical.sha256_hex(b""))


def argument_bytes(case: Case) -> bytes | None:
    """Return the canonical bytes to keep, or None where the arguments have no canonical form."""
    if case.normalized is not None:
        return case.normalized.canonical
    if case.call.raw_hash is not None:
        return None
    try:
        return canonical.canonical_bytes(case.call.arguments)
    except NotCanonical:
        return None


def recorded_name(case: Case) -> str:
    """Return the tool's name as its row has it: a name that nobody offers may be anything."""
    return case.spec.name if case.tool is not None else redaction.redact_text(case.call.name)[:96]


def check_repetition(case: Case) -> None:
    """The breakers, before a new call is dispatched. Raises: Refused (tool.loop_detected, tool.repeat_uncertain)."""
    if case.row is not None:
        return
    run, normalized_call = case.facts.run, keyed(case)
    stop = repetition.stopped_by(run.alarms, case.spec.name, normalized_call.arguments_hash, run.previous_step)
    if stop is not None:
        raise Refused(stop)


def weigh_denial(case: Case, refusal: Refused) -> Refused:
    """The third identical denial of a run says so, and its commit fails the run."""
    if reasons.reason(refusal.reason_code).status is not OutcomeStatus.DENIED:
        return refusal
    hashed = keyed(case).arguments_hash
    if repetition.is_repeated_denial(case.facts.run.alarms, recorded_name(case), hashed, refusal.reason_code):
        return Refused(repetition.REPEATED_DENIAL, f"three times {refusal.reason_code}: {refusal.detail}")
    return refusal


@timed(6)
def evaluate_policy(case: Case, policy: PolicyGate) -> Decision:
    """Judge the action; the stricter of the recorded and the fresh verdict wins. Raises: Refused (policy.*)."""
    assert case.arguments is not None
    assert case.normalized is not None
    action = ProposedAction(
        tool_name=case.spec.name,
        tool_version=case.spec.version,
        server_id=case.spec.server_id,
        classification=case.classification,
        arguments=case.arguments,
        arguments_hash=case.normalized.arguments_hash,
        origin_trust=case.origin_trust,
        argument_trust=case.call.argument_trust,
        binding=case.tool.binding if case.tool is not None else "",
    )
    decision = policy.evaluate(action, case.facts)
    if decision.verdict is PolicyVerdict.BLOCK:
        case.decision = decision
        raise Refused(decision.reason_code, decision.rule)
    return decision


@timed(7)
def request_approval(case: Case, desk: ApprovalDesk) -> ApprovalTerms | None:
    """Return terms where the call must wait for people; None where it may go on.

    A call is held once. On re-entry an approval with an equal digest satisfies what its seats cover, and a grant what
    it was used for, until it ends; otherwise the call is denied. Raises: Refused (policy.approval.*).
    """
    assert case.decision is not None
    approval, decision = case.facts.approval, case.decision
    is_open = decision.verdict.needs_approval and decision.grant is None
    if case.row is None:
        return desk.terms(decision, case.facts) if is_open else None
    if approval is None:
        # Also where the fresh verdict asks for nobody: the recorded one was satisfied by that grant alone.
        if case.row.verdict.needs_approval and decision.grant is None:
            raise Refused("policy.approval.grant_ended", "the grant that stood in for people stands no more")
        if is_open:
            raise Refused(decision.reason_code, "the fresh verdict asks for an approval that was never given")
        return None
    if approval.status is ApprovalStatus.REJECTED:
        raise Refused(approval.rejection_code or "policy.approval.rejected")
    _check_time(approval)
    if approval.status is ApprovalStatus.VOIDED or approval.digest != approval_digest(case):
        raise Refused("policy.approval.voided", "what was approved is not what would be done")
    _check_seats(approval, decision.needed_seats)
    return None


def _check_seats(approval: Approval, needed: Sequence[Seat]) -> None:
    """Whoever approved must still be entitled to, and be enough for what was asked then and for what is asked now."""
    if approval.status is ApprovalStatus.PENDING:
        return
    for asked in (approval.seats, needed):
        if not seats.covers(approval.held, asked):
            have, wanted = ", ".join(approval.held) or "nobody", ", ".join(asked)
            raise Refused("policy.approval.not_covering", f"approved by {have}; asked for {wanted}")


def _check_time(approval: Approval) -> None:
    """Two times: one to decide, one to use what was decided."""
    undecided = approval.status is ApprovalStatus.PENDING and approval.is_expired
    if approval.status is ApprovalStatus.EXPIRED or undecided:
        raise Refused("policy.approval.expired")
    if approval.status is ApprovalStatus.APPROVED and not approval.is_consumable:
        raise Refused("policy.approval.expired", "approved, and not used in time")


def approval_digest(case: Case) -> str:
    """Bind an approval to everything that it was given for (DESIGN §5)."""
    assert case.normalized is not None
    assert case.tool is not None
    facts = case.facts
    return binding.approval_digest(
        tenant=facts.tenant_id, principal=str(facts.principal.id), run=str(facts.run.id), tool=case.spec.name,
        version=case.spec.version, arguments_hash=case.normalized.arguments_hash,
        classification=case.classification, binding=case.tool.binding,
    )  # fmt: skip


def tool_digest(case: Case) -> str:
    """Bind a grant that may be drawn from this call to the very tool (DESIGN §5)."""
    assert case.tool is not None
    return binding.tool_digest(case.spec.name, case.spec.version, case.classification, case.tool.binding)


def execution_context(case: Case, runtime: Runtime) -> ToolExecutionContext:
    """Build what the tool may reach; its time is the least of its own limit and what the claim has left."""
    claim, facts, spec = case.claim, case.facts, case.spec
    assert claim is not None
    assert case.normalized is not None
    assert runtime.execution is not None
    # What is sent is made from the bytes that were judged and approved, whatever was done to the object since step 5.
    case.arguments = canonical.parse_strict(case.normalized.canonical)

    async def mark_effect_sent() -> None:
        """A no-op: the executor has committed the watermark before any tool whose side effect is not none."""

    return ToolExecutionContext(
        invocation_id=claim.invocation_id,
        call_id=case.call.call_id,
        run_id=facts.run.id,
        session_id=facts.session.id,
        tenant_id=facts.tenant_id,
        principal=Principal(facts.principal.id, facts.principal.external_id, facts.scopes),
        step_number=case.call.step.number,
        attempt_number=claim.attempt_number,
        idempotency_key=case.normalized.idempotency_key,
        deadline_at=claim.operation_deadline,
        timeout_seconds=min(float(spec.timeout_seconds), claim.remaining_seconds),
        maximum_output_bytes=spec.maximum_output_bytes,
        target=ExecutionTarget(spec.target_kind, spec.server_id),
        workspace=runtime.workspace_for(facts.tenant_id, facts.run.id) if runtime.workspace_for else None,
        artifacts=runtime.artifacts.writer(claim),
        credentials=runtime.credentials.of(facts.tenant_id),
        cancellation=runtime.execution.cancellation(claim),
        mark_effect_sent=mark_effect_sent,
    )


@timed(11)
def validate_result(case: Case) -> ToolResult:
    """Check the structured result. A mismatch is a failure of the answer: the tool has run (TS step 11)."""
    result, schema = case.result, case.spec.output_schema
    assert result is not None
    if not result.ok or schema is None:
        return result
    errors = validation.output_errors(schema, result.structured)
    if not errors:
        return result
    detail = "; ".join(f"{e.pointer or '/'}: {e.message}" for e in errors)
    failure = ToolFailure(kind=ToolFailureKind.OUTPUT_INVALID, reason_code="tool.output_invalid", detail=detail)
    # What it said stays readable, as text: people must be able to see what did not fit.
    said = result.content or (TextPart(text=outputs.as_text(result.structured)),)
    return ToolResult(
        ok=False, content=said, artifacts=result.artifacts, failure=failure, output_trust=result.output_trust
    )


@timed(12)
def bound_output(case: Case, runtime: Runtime) -> BoundedOutput:
    """Keep what fits, put the rest into an artifact, and give the model head and tail (TS "Output")."""
    assert case.result is not None
    assert case.claim is not None
    status, code = _conclusion(case, case.result)
    return outputs.bound(
        case.result, status, code, spec=case.spec, claim=case.claim, limits=runtime.limits,
        artifacts=runtime.artifacts, nonces=(runtime.ids.nonce(), runtime.ids.nonce()),
    )  # fmt: skip


def _conclusion(case: Case, result: ToolResult) -> tuple[OutcomeStatus, str]:
    if result.failure is None:
        return OutcomeStatus.SUCCEEDED, "tool.succeeded"
    kind = result.failure.kind
    sent = case.classification.side_effect.value != "none"
    is_unknown = kind in attempts.UNANSWERED or attempts.is_held(result.failure)
    unanswered = is_unknown and sent and attempts.unknown_is_uncertain(case)
    if kind is ToolFailureKind.OUTCOME_UNKNOWN or unanswered:
        return OutcomeStatus.UNCERTAIN, "tool.outcome_unknown"
    code = reasons.code_for_failure(kind, result.failure.reason_code)
    return reasons.reason(code).status or OutcomeStatus.FAILED, code


@timed(14)
def render_outcome(case: Case, settled: Disposition) -> Disposition:
    """Add the six fields that a runtime reads; a success is rendered with its content."""
    if settled.reason_code is None:
        return settled
    outcome = reasons.outcome(settled.reason_code, case.spec.name)
    return Disposition(
        settled.invocation_id, settled.state, settled.outcome_status, settled.reason_code, outcome, settled.is_replay
    )


def outcome_status(code: str) -> OutcomeStatus:
    """Return the status that the table gives an outcome's reason."""
    status = reasons.reason(code).status
    assert status is not None, f"{code} is a problem of the request and no outcome"
    return status


def _is_withdrawn(case: Case) -> bool:
    row, run = case.row, case.facts.run
    return run.is_cancelled or run.is_expired or (row is not None and row.cancel_requested_at is not None)
