"""What the rows of uncertain calls prove, for the person who has to find out whether each of them happened.

Nothing is judged: what nobody recorded is said to be unknown. A worker that dies takes what it knew of its attempt with
it, and whoever finds its call later knows no more than the row. Source: DESIGN §4.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import OuterRef, Q, Subquery

from toolsys import timeline
from toolsys.domain.spec import IdempotencyClass, SideEffectClass, ToolSpec
from toolsys.domain.states import InvocationStatus
from toolsys.models import Invocation, Resolution, UncertainResolution
from toolsys.registry import Registry
from toolsys.tenancy import OPERATOR_ALIAS, tenant_transaction
from toolsys.trace import STEP_NAMES

QUEUE_LENGTH: Final = 100
_CLAIM: Final = 9
_EXECUTE: Final = 10


@dataclass(frozen=True, slots=True)
class UncertainCall:
    """A call whose outcome nobody knows, and what its row proves.

    Between `effect_sent_at` (None: an older database) and `completed_at` it may have been felt. `last_step` is the
    furthest that a record or a commit proves. `recorded` of `claim_epoch` claims told of their execution;
    `first_byte_us` is when the first of them let its first byte out, in microseconds after its watermark was held.
    `claimed_by` is whose death has to be proved before anybody may say that it did not happen.
    """

    id: UUID
    tool_name: str
    idempotency_class: str
    effect_sent_at: datetime | None
    completed_at: datetime | None
    last_step: int
    claim_epoch: int
    claimed_by: str | None
    recorded: int
    first_byte_us: int | None

    @property
    def last_step_name(self) -> str:
        return STEP_NAMES.get(self.last_step, "none")

    @property
    def first_byte(self) -> str:
        """Say what is known of the time between the watermark and the first byte."""
        if not self.recorded:
            return f"unknown: none of {self.claim_epoch} claims recorded its execution"
        if self.first_byte_us is None:
            known = "none was let out by the client"
        else:
            known = f"let out {timeline.duration(self.first_byte_us / 1000)} after the watermark"
        silent = self.claim_epoch - self.recorded
        return f"{known}; {silent} of {self.claim_epoch} claims recorded nothing of it" if silent > 0 else known


@dataclass(frozen=True, slots=True)
class EffectProbe:
    """The read that an operator named for a tool. `fault` says why it is not to be used as it is named, or is empty."""

    name: str
    fault: str


def uncertain_calls(tenant_id: str, *, limit: int = QUEUE_LENGTH, using: str = OPERATOR_ALIAS) -> list[UncertainCall]:
    """Return what waits for a person, oldest first: nobody has found anything, or the last finding left it open."""
    findings = UncertainResolution.objects.filter(tenant_id=tenant_id, invocation_id=OuterRef("pk")).order_by("-id")
    with tenant_transaction(tenant_id, using):
        rows = (
            Invocation.objects.using(using)
            .filter(tenant_id=tenant_id, status=InvocationStatus.UNCERTAIN)
            .annotate(found=Subquery(findings.values("resolution")[:1]))
            .filter(Q(found=None) | Q(found=Resolution.LEFT_OPEN))
            .order_by("id")[:limit]
        )
        return [evidence_of(row) for row in rows]


def uncertain_call(tenant_id: str, invocation_id: UUID, *, using: str = "default") -> UncertainCall | None:
    """Return one of a tenant's uncertain calls, whatever was found out about it; None: it is no such call."""
    with tenant_transaction(tenant_id, using):
        rows = Invocation.objects.using(using).filter(tenant_id=tenant_id, status=InvocationStatus.UNCERTAIN)
        row = rows.filter(pk=invocation_id).first()
    return None if row is None else evidence_of(row)


def waiting_count(tenant_id: str) -> int:
    """Return how many wait, up to one more than the queue shows."""
    return len(uncertain_calls(tenant_id, limit=QUEUE_LENGTH + 1, using="default"))


def findings_on(invocation_id: UUID) -> list[UncertainResolution]:
    """Return what people found out about a call, the newest first. Transaction: needs the tenant's."""
    found = UncertainResolution.objects.select_related("resolved_by").filter(invocation_id=invocation_id)
    return list(found.order_by("-id")[:100])


def evidence_of(row: Invocation) -> UncertainCall:
    # An older build recorded step 10 without it: then it is as unknown as of the dead.
    told = [entry for entry in row.step_trace if entry["step"] == _EXECUTE and "first_byte_us" in entry]
    departures = [entry["first_byte_us"] for entry in told if entry["first_byte_us"] is not None]
    return UncertainCall(
        row.id, row.tool_name, row.idempotency_class, row.effect_sent_at, row.completed_at, _last_step(row),
        row.claim_epoch, row.claimed_by, len(told), departures[0] if departures else None,
    )  # fmt: skip


def probes_of(
    tenant_id: str, tool_names: Collection[str], named: Mapping[str, str], registry: Registry
) -> dict[str, EffectProbe]:
    """Return, for each tool that has one, the named read of its effect, judged by what the tenant is offered now."""
    pairs = {name: named[name] for name in tool_names if name in named}
    known = registry.known(tenant_id, {*pairs, *pairs.values()}) if pairs else {}
    return {name: EffectProbe(probe, _fault(known.get(probe), known.get(name))) for name, probe in pairs.items()}


def _fault(probe: ToolSpec | None, tool: ToolSpec | None) -> str:
    if probe is None:
        return "no tool of this organisation has that name now"
    if probe.side_effect is not SideEffectClass.NONE or probe.idempotency is not IdempotencyClass.READ_ONLY:
        return "it is not classified as a read"
    if probe.server_id is not None and (tool is None or probe.server_id != tool.server_id):
        return "it is a tool of another server"
    return ""


def _last_step(row: Invocation) -> int:
    """Who ends another's call recomputes its first steps: the latest entry is not the furthest step."""
    entries: list[dict[str, Any]] = row.step_trace
    committed = [_CLAIM] * (row.started_at is not None) + [_EXECUTE] * (row.effect_sent_at is not None)
    return max([*(entry["step"] for entry in entries), *committed], default=0)
