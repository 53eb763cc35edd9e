"""Why a call became what it became: each of the fourteen steps, what it saw, and what it decided, from the rows.

Reads what was recorded and recomputes nothing; arguments and results appear as their redacted copies do. For
`manage.py policy explain`, pages and the API. Source: DESIGN §5 and §6.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from toolsys.domain import reasons
from toolsys.domain.states import InvocationStatus
from toolsys.models import ApprovalRequest, Invocation, PolicyDecision
from toolsys.trace import STEP_NAMES

NOT_REACHED: Final = "not reached"


@dataclass(frozen=True, slots=True)
class Explained:
    """One step. `is_deciding`: what ended the call, or holds it, was said here. `times` counts its recorded passes."""

    number: int
    name: str
    times: int
    saw: str
    decided: str
    is_deciding: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    invocation_id: UUID
    tool_name: str
    status: str
    reason_code: str | None
    message: str
    steps: tuple[Explained, ...]


@dataclass(frozen=True, slots=True)
class _Record:
    row: Invocation
    decisions: list[PolicyDecision]
    approval: ApprovalRequest | None
    for_people: bool

    @property
    def end(self) -> int:
        """The step at which the call stands, or was turned away; 14 for one that has a result."""
        row = self.row
        numbers: list[int] = [entry["step"] for entry in row.step_trace]
        if row.status == InvocationStatus.WAITING_FOR_APPROVAL:
            return 7
        if row.completed_at is None:
            return max([8 if row.authorized_at else 0, 9 if row.started_at else 0, *numbers])
        if row.started_at is None or (row.reason_code or "").startswith("policy."):
            return numbers[-1] if numbers else 0
        return 14 if numbers[-1] > 10 else 10


def explain(invocation_id: UUID, *, for_people: bool = True) -> Explanation | None:
    """Return None for a call that is not the tenant's. Not `for_people`, it names no person and no inner detail.

    Transaction: needs the tenant's.
    """
    found = Invocation.objects.select_related("run__session__agent", "run__session__principal", "api_key")
    row = found.filter(pk=invocation_id).first()
    if row is None:
        return None
    record = _Record(
        row,
        list(PolicyDecision.objects.filter(invocation=row).order_by("created_at", "id")),
        ApprovalRequest.objects.select_related("decided_by").filter(invocation=row).first(),
        for_people,
    )
    message = reasons.reason(row.reason_code).message if row.reason_code else ""
    steps = tuple(_explained(record, number) for number in STEP_NAMES)
    return Explanation(row.pk, row.tool_name, row.outcome_status or row.status, row.reason_code, message, steps)


def _explained(record: _Record, number: int) -> Explained:
    row, end = record.row, record.end
    times = sum(entry["step"] == number for entry in row.step_trace)
    is_deciding = number == (13 if end == 14 else end)
    if number > end:
        return Explained(number, STEP_NAMES[number], times, "", NOT_REACHED, is_deciding=False)
    saw, decided = _SAID[number](record)
    if is_deciding and row.reason_code and end < 14:
        detail = (row.error or {}).get("detail", "") if record.for_people else ""
        refused = f"refused: {row.reason_code}" + (f" ({detail})" if detail else "")
        decided = f"{refused}; {decided}" if number == 6 and record.decisions else refused
    return Explained(number, STEP_NAMES[number], times, saw, decided, is_deciding)


def _resolved(record: _Record) -> tuple[str, str]:
    row = record.row
    where = f", server {row.server_id}" if row.server_id else ""
    pin = row.run.session.tool_schema_sha256[:12]
    return f"{row.tool_name} in the pinned set {pin}", f"version {row.tool_version}, {row.tool_source}{where}"


def _enabled(record: _Record) -> tuple[str, str]:
    agent = record.row.run.session.agent
    return f"agent {agent.name}", "enabled for the agent"


def _scoped(record: _Record) -> tuple[str, str]:
    row = record.row
    return f"key {row.api_key}, principal {row.run.session.principal.external_id}", "every required scope is held"


def _validated(record: _Record) -> tuple[str, str]:
    names = ", ".join(sorted(record.row.arguments)) or "none"
    return f"arguments: {names}", "they fit the pinned schema"


def _normalized(record: _Record) -> tuple[str, str]:
    row = record.row
    return f"hash {row.normalized_arguments_hash[:12]}", f"key {row.idempotency_key[:24]}"


def _judged(record: _Record) -> tuple[str, str]:
    row = record.row
    saw = f"{row.side_effect}, risk {row.risk}, {row.idempotency_class}, origin trust {row.origin_trust}"
    return saw, "; then ".join(dict.fromkeys(map(_said_of, record.decisions))) or "no decision was recorded"


def _said_of(decision: PolicyDecision) -> str:
    rules = [f"{each['rule']} says {each['verdict']}" for each in decision.matched.get("rules", [])]
    matrix = decision.matched.get("matrix")
    seen = f" [matrix says {matrix}; {'; '.join(rules)}]" if rules else ""
    return f"{decision.verdict} by {decision.rule} ({decision.reason_code}), epoch {decision.authz_epoch}{seen}"


def _approved(record: _Record) -> tuple[str, str]:
    approval = record.approval
    if approval is None:
        return "the verdict", "no approval is needed"
    who = f" by {approval.decided_by}" if approval.decided_by and record.for_people else ""
    at = f" at {approval.decided_at:%Y-%m-%d %H:%M:%S}" if approval.decided_at else ""
    until = f"until {approval.expires_at:%Y-%m-%d %H:%M:%S} UTC"
    return (
        f"{approval.verdict}, seats {', '.join(approval.seats)}, {until}",
        f"{approval.status}{who}{at}",
    )


def _intended(record: _Record) -> tuple[str, str]:
    at = record.row.authorized_at
    return f"digest {record.approval.digest[:12]}" if record.approval else "the verdict", f"intent committed {at}"


def _claimed(record: _Record) -> tuple[str, str]:
    row = record.row
    return f"claimed {row.claim_epoch} times", f"by {row.claimed_by or 'nobody now'}, first at {row.started_at}"


def _executed(record: _Record) -> tuple[str, str]:
    row = record.row
    sent = f"watermark at {row.effect_sent_at}" if row.effect_sent_at else "no effect was sent"
    return f"attempt {row.attempt_number}, deadline {row.operation_deadline}", sent


def _checked(record: _Record) -> tuple[str, str]:
    return "the tool's answer", f"{record.row.outcome_status or 'not there yet'}"


def _bounded(record: _Record) -> tuple[str, str]:
    row = record.row
    kept = f"artifact {row.artifact_id}" if row.artifact_id else "kept inline"
    return f"{row.output_bytes or 0:,} bytes", f"{kept}, {'truncated' if row.truncated else 'whole'}"


def _persisted(record: _Record) -> tuple[str, str]:
    row = record.row
    return f"claim epoch {row.claim_epoch}", f"{row.outcome_status} ({row.reason_code}) at {row.completed_at}"


def _rendered(record: _Record) -> tuple[str, str]:
    return "the row, at every read", reasons.reason(record.row.reason_code).message if record.row.reason_code else ""


_SAID: Final = dict(enumerate((
    _resolved, _enabled, _scoped, _validated, _normalized, _judged, _approved, _intended, _claimed, _executed, _checked,
    _bounded, _persisted, _rendered,
), start=1))  # fmt: skip


def lines(found: Explanation) -> Iterator[str]:
    """Write an explanation as text, a star at the step that decided."""
    yield f"{found.tool_name} {found.invocation_id}: {found.status}" + (
        f" ({found.reason_code}) {found.message}" if found.reason_code else ""
    )
    for step in found.steps:
        mark = "*" if step.is_deciding else " "
        said = f"saw {step.saw}; {step.decided}" if step.saw else step.decided
        yield f"{mark}{step.number:2} {step.name:28} {said}"
