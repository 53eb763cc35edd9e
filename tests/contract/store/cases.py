"""Builds what a store is handed: calls, and cases on their way through the real steps 1 to 7."""

from dataclasses import replace
from typing import Any
from uuid import UUID

from approvals.gate import RuleGate, no_grants
from approvals.ruleset import Ruleset
from tests.contract.store.worlds import World
from tests.unit.specs import spec
from toolsys import steps
from toolsys.domain.calls import BoundedOutput, Claim, Disposition, Invocation, ProposedAction, ProposedCall, StepDraft
from toolsys.domain.context import ToolExecutionContext
from toolsys.domain.results import ToolResult
from toolsys.domain.seats import Seat
from toolsys.domain.spec import IdempotencyClass, JsonObject, RiskLevel, SideEffectClass, ToolSpec
from toolsys.domain.states import OutcomeStatus
from toolsys.domain.trust import TrustLevel
from toolsys.ids import uuid7
from toolsys.ports import ApprovalTerms, Case, Store

TERMS = ApprovalTerms((Seat.EXPERT,), 120.0, 60.0)
SCHEMA: JsonObject = {"type": "object", "properties": {"line": {"type": "string"}}}
READ = spec(name="demo.echo", input_schema=SCHEMA, timeout_seconds=30)
WRITE = spec(
    name="demo.external_write", input_schema=SCHEMA, timeout_seconds=30, side_effect=SideEffectClass.EXTERNAL_WRITE,
    risk=RiskLevel.HIGH, idempotency=IdempotencyClass.NON_IDEMPOTENT, output_trust=TrustLevel.EXTERNAL_UNTRUSTED,
)  # fmt: skip


class Named:
    """A tool that is never executed: a store only reads its spec."""

    binding = "here"

    def __init__(self, declared: ToolSpec) -> None:
        self.spec = declared

    async def execute(self, arguments: JsonObject, context: ToolExecutionContext) -> ToolResult:
        raise NotImplementedError


def call_of(world: World, declared: ToolSpec = READ, **changes: Any) -> ProposedCall:
    """Return one proposed call; `number`, `body_hash`, `call_count` and `group` are its step's."""
    step = StepDraft(
        id=uuid7(), number=changes.pop("number", 1), body_hash=changes.pop("body_hash", "body"), body=b"sealed",
        call_count=changes.pop("call_count", 1), context_trust=(), origin_trust=TrustLevel.USER,
        parallel_group=changes.pop("group", None), correlation_id="",
    )  # fmt: skip
    given: dict[str, Any] = {
        "tenant_id": world.tenant_id, "invocation_id": uuid7(), "run_id": world.run_id, "step": step,
        "call_id": "call_0", "call_index": 0, "name": declared.name, "arguments": {"line": "x"}, "raw_hash": None,
        "argument_trust": {}, "api_key_id": world.key_id,
    }  # fmt: skip
    return ProposedCall(**{**given, **changes})


def case_of(store: Store, call: ProposedCall, declared: ToolSpec = READ) -> Case:
    """Bring a call to where steps 1 to 7 leave it: judged, with the terms of an approval where it needs one."""
    case = Case(call, store.read_facts(call), tool=Named(declared))
    case.arguments = steps.validate_arguments(case)
    case.normalized = steps.normalize(case)
    case.decision = RuleGate(lambda tenant_id, epoch: Ruleset(), no_grants).evaluate(
        ProposedAction(
            tool_name=declared.name, tool_version=declared.version, server_id=None,
            classification=case.classification, arguments=case.arguments,
            arguments_hash=case.normalized.arguments_hash, origin_trust=case.origin_trust, argument_trust={},
        ),
        case.facts,
    )  # fmt: skip
    if case.decision.verdict.needs_approval and case.row is None:
        case.terms = TERMS
    return case


def intended(store: Store, call: ProposedCall, declared: ToolSpec = READ) -> Case:
    """Persist the intent of a call that needs no approval; return the case that a worker then reads."""
    assert isinstance(store.commit_intent(case_of(store, call, declared)), Invocation)
    return case_of(store, call, declared)


def held(store: Store, call: ProposedCall) -> UUID:
    return store.commit_hold(case_of(store, call, WRITE)).invocation_id


def claimed(store: Store, call: ProposedCall, declared: ToolSpec = READ) -> Case:
    """Read the call again, as a worker does, and claim it; the case carries the claim."""
    case = case_of(store, call, declared)
    answer = claim_again(store, case)
    assert isinstance(answer, Claim), answer
    case.claim = answer
    return case


def taken(store: Store, call: ProposedCall, declared: ToolSpec = READ) -> Claim:
    """Claim a call whose intent is persisted; return the claim alone."""
    claim = claimed(store, call, declared).claim
    assert claim is not None
    return claim


def begun(store: Store, call: ProposedCall, declared: ToolSpec = READ) -> Claim:
    """Bring a new call as far as a worker's claim."""
    intended(store, call, declared)
    return taken(store, call, declared)


def claim_again(store: Store, case: Case) -> Claim | Disposition:
    assert case.row is not None
    return store.commit_claim(case, case.row)


def concluded(case: Case, **changes: Any) -> Case:
    """Give the case an output to persist."""
    output = BoundedOutput(
        outcome_status=OutcomeStatus.SUCCEEDED, reason_code="tool.succeeded", payload={"content": []}, redacted=None,
        error_detail="", output_bytes=0, truncated=False, artifact_id=None, trust=TrustLevel.INTERNAL_TOOL,
    )  # fmt: skip
    case.output = replace(output, **changes)
    return case
