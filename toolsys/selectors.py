"""Reads for the API and the pages: shaped rows, never querysets that a template could walk.

Outcomes of the call path come from one SQL function and one round trip. Source: DESIGN §6.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, Q

from toolsys import database, inert, timeline
from toolsys.domain import offering, reasons
from toolsys.domain.offering import Limit
from toolsys.domain.skills import OfferedSkill, SkillArgument, SkillSource
from toolsys.domain.states import InvocationStatus, OutcomeStatus, RunStatus
from toolsys.models import (
    AgentSession,
    ApprovalRequest,
    Artifact,
    Credential,
    Invocation,
    PolicyDecision,
    Run,
    Skill,
    Tenant,
    ToolEvent,
)
from toolsys.ports import ArtifactStore, Sealer
from toolsys.tenancy import tenant_transaction
from toolsys.timeline import Timeline


@dataclass(frozen=True, slots=True)
class CallView:
    """One invocation as a runtime reads it. `payload` is the recorded result, whole, or empty."""

    id: UUID
    run_id: UUID
    step_number: int
    call_id: str
    call_index: int
    tool_name: str
    tool_version: str
    status: InvocationStatus
    outcome_status: OutcomeStatus | None
    reason_code: str | None
    idempotency_key: str
    attempt_number: int
    identical_count: int
    effect_sent: bool
    truncated: bool
    output_bytes: int | None
    artifact_id: UUID | None
    output_trust: str | None
    origin_trust: str
    approval_id: UUID | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    payload: dict[str, Any]

    @property
    def is_waiting_for_people(self) -> bool:
        return self.status is InvocationStatus.WAITING_FOR_APPROVAL

    def outcome_fields(self) -> dict[str, Any] | None:
        """Return the six fields, for a terminal call."""
        if self.reason_code is None:
            return None
        return reasons.outcome(self.reason_code, self.tool_name).as_fields()


def step_calls(tenant_id: str, run_id: UUID, step_number: int, sealer: Sealer) -> list[CallView]:
    return _calls(tenant_id, (run_id, step_number, None), sealer)


def call(tenant_id: str, invocation_id: UUID, sealer: Sealer) -> CallView | None:
    found = _calls(tenant_id, (None, None, invocation_id), sealer)
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class CallPage:
    calls: list[CallView]
    next_cursor: UUID | None


def run_calls(tenant_id: str, run_id: UUID, *, after: UUID | None, limit: int, sealer: Sealer) -> CallPage | None:
    """Return calls of a run in the order of their time-ordered ids; None for a run that is not the tenant's."""
    if run(tenant_id, run_id) is None:
        return None
    rows = database.call("SELECT * FROM toolsys_run_calls(%s, %s, %s, %s)", (tenant_id, run_id, after, limit + 1))
    found = [_view(tenant_id, database.from_json(facts), result, sealer) for facts, result in rows]
    return CallPage(found[:limit], found[limit - 1].id if len(found) > limit else None)


def session(tenant_id: str, session_id: UUID) -> AgentSession | None:
    with tenant_transaction(tenant_id):
        return AgentSession.objects.select_related("agent", "principal", "tool_set").filter(pk=session_id).first()


def run(tenant_id: str, run_id: UUID) -> Run | None:
    with tenant_transaction(tenant_id):
        return Run.objects.filter(pk=run_id).first()


def pending_approvals(tenant_id: str, run_id: UUID) -> int:
    """Return how many calls of a run wait for people."""
    with tenant_transaction(tenant_id):
        return Invocation.objects.filter(run_id=run_id, status=InvocationStatus.WAITING_FOR_APPROVAL).count()


@dataclass(frozen=True, slots=True)
class ArtifactView:
    """One adopted artifact. `storage_key` is for the store and for nobody else."""

    id: UUID
    tenant_id: str
    invocation_id: UUID
    run_id: UUID
    media_type: str
    size_bytes: int
    sha256: str
    trust: str
    created_at: datetime
    storage_key: str


def artifact(tenant_id: str, artifact_id: UUID) -> ArtifactView | None:
    """Return an artifact that a recorded result stands behind; what no result adopted does not exist for readers."""
    with tenant_transaction(tenant_id):
        row = Artifact.objects.filter(pk=artifact_id, adopted_at__isnull=False).first()
        if row is None:
            return None
        run_id = Invocation.objects.values_list("run_id", flat=True).get(pk=row.invocation_id)
    return ArtifactView(
        id=row.id, tenant_id=tenant_id, invocation_id=row.invocation_id, run_id=run_id, media_type=row.media_type,
        size_bytes=row.size_bytes, sha256=row.sha256, trust=row.trust, created_at=row.created_at,
        storage_key=row.storage_key,
    )  # fmt: skip


def artifact_content(view: ArtifactView, artifacts: ArtifactStore) -> bytes:
    """Return the whole content, checked against its digest. Raises: CannotRead."""
    return artifacts.read(
        tenant_id=view.tenant_id, artifact_id=view.id, storage_key=view.storage_key, sha256=view.sha256
    )


@dataclass(frozen=True, slots=True)
class SkillView:
    """The metadata of one skill, with what its source makes of it."""

    id: UUID
    name: str
    version: str
    description: str
    required_tools: tuple[str, ...]
    source: SkillSource
    server_id: str | None
    arguments: tuple[dict[str, Any], ...]


def skills(
    tenant_id: str, *, sources: frozenset[str], after: UUID | None = None, limit: int = 100
) -> tuple[list[SkillView], UUID | None]:
    """Return the skills that are offered now, and the cursor of the next page; `sources` are the enabled servers."""
    with tenant_transaction(tenant_id):
        found = Skill.objects.filter(tenant_id=tenant_id, withdrawn_at=None)
        found = found.filter(Q(server_id=None) | Q(server_id__in=sources)).order_by("id")
        rows = list((found if after is None else found.filter(id__gt=after))[: limit + 1])
    views = [
        SkillView(row.id, row.name, row.version, row.description, tuple(row.required_tools), SkillSource(row.source),
                  row.server_id, tuple(row.arguments))
        for row in rows[:limit]
    ]  # fmt: skip
    return views, views[-1].id if len(rows) > limit else None


def skills_recorded(tenant_id: str, server_id: str, since: datetime) -> int:
    """Return how many versions of an MCP server's skills were recorded since. Transaction: needs the tenant's."""
    return Skill.objects.filter(tenant_id=tenant_id, server_id=server_id, created_at__gt=since).count()


def offered_skill(tenant_id: str, session_id: UUID, name: str, limits: Iterable[Limit] = ()) -> OfferedSkill | None:
    """Return the skill that this session may load by this name.

    As for tools: what the agent's globs name, in the session's environment and under its profile. Whether its source
    is enabled is its provider's to say.
    """
    with tenant_transaction(tenant_id):
        session = AgentSession.objects.select_related("agent").filter(pk=session_id).first()
        row = Skill.objects.filter(tenant_id=tenant_id, name=name, withdrawn_at=None).order_by("-id").first()
    if session is None or row is None or not session.agent.is_enabled:
        return None
    if not any(fnmatchcase(name, glob) for glob in session.agent.enabled_tools):
        return None
    if not offering.is_offered(name, limits, profile=session.profile, environment=session.environment):
        return None
    arguments = tuple(SkillArgument(**argument) for argument in row.arguments)
    return OfferedSkill(row.name, row.version, SkillSource(row.source), row.server_id, row.remote_name, arguments)


def read_pin(tenant_id: str, session_id: UUID) -> dict[str, Any]:
    with tenant_transaction(tenant_id):
        found = AgentSession.objects.filter(pk=session_id).values_list("tool_set__tools", flat=True).first()
    return found or {}


def credential_versions(tenant_id: str) -> dict[str, int]:
    """Return the version that counts of each live credential of the store, by its reference."""
    with tenant_transaction(tenant_id):
        found = Credential.objects.filter(tenant_id=tenant_id, retired_at=None)
        return {f"store:{name}": version for name, version in found.values_list("name", "current_version")}


def _calls(tenant_id: str, where: tuple[Any, Any, Any], sealer: Sealer) -> list[CallView]:
    rows = database.call("SELECT * FROM toolsys_outcomes(%s, %s, %s, %s)", (tenant_id, *where))
    return [_view(tenant_id, database.from_json(found), result, sealer) for found, result in rows]


def _view(tenant_id: str, row: dict[str, Any], result: bytes | None, sealer: Sealer) -> CallView:
    identifier = UUID(row["id"])
    payload: dict[str, Any] = {}
    if result is not None:
        plain = sealer.open(bytes(result), tenant_id=tenant_id, kind="result", row=identifier)
        payload = json.loads(plain)
    return CallView(
        id=identifier,
        run_id=UUID(row["run_id"]),
        step_number=row["step_number"],
        call_id=row["call_id"],
        call_index=row["call_index"],
        tool_name=row["tool_name"],
        tool_version=row["tool_version"],
        status=InvocationStatus(row["status"]),
        outcome_status=OutcomeStatus(row["outcome_status"]) if row["outcome_status"] else None,
        reason_code=row["reason_code"],
        idempotency_key=row["idempotency_key"],
        attempt_number=row["attempt_number"],
        identical_count=row["identical_count"],
        effect_sent=row["effect_sent"],
        truncated=row["truncated"],
        output_bytes=row["output_bytes"],
        artifact_id=UUID(row["artifact_id"]) if row["artifact_id"] else None,
        output_trust=row["output_trust"],
        origin_trust=row["origin_trust"],
        approval_id=UUID(row["approval_id"]) if row["approval_id"] else None,
        created_at=datetime.fromisoformat(row["created_at"]),
        started_at=_moment(row["started_at"]),
        completed_at=_moment(row["completed_at"]),
        payload=payload,
    )


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def tenant_name(tenant_id: str) -> str:
    with tenant_transaction(tenant_id):
        return Tenant.objects.values_list("name", flat=True).get(pk=tenant_id)


def recent_tool_names() -> list[str]:
    """Return the tools of the newest thousand calls. Transaction: needs the tenant's."""
    newest = Invocation.objects.order_by("-id").values_list("tool_name", flat=True)[:1000]
    return sorted(set(newest))


@dataclass(frozen=True, slots=True)
class InvocationPage:
    """Everything that the console shows of one call. `said` is the table's message for its reason code."""

    row: Invocation
    timeline: Timeline
    arguments: str
    result: str
    error: str
    decision: PolicyDecision | None
    matched: str
    approval: ApprovalRequest | None
    events: list[ToolEvent]
    artifacts: list[Artifact]
    said: str

    @property
    def status(self) -> str:
        return self.row.outcome_status or self.row.status

    @property
    def verdict(self) -> str:
        return self.decision.verdict.replace("_", " ") if self.decision is not None else ""

    @property
    def took_milliseconds(self) -> float | None:
        if self.row.completed_at is None:
            return None
        return (self.row.completed_at - self.row.created_at).total_seconds() * 1000


def invocation_page(invocation_id: UUID) -> InvocationPage | None:
    """Transaction: needs the tenant's."""
    found = Invocation.objects.select_related("run__session__agent", "run__session__principal", "api_key")
    row = found.filter(pk=invocation_id).first()
    if row is None:
        return None
    approval = ApprovalRequest.objects.filter(invocation=row).first()
    decision = PolicyDecision.objects.filter(invocation=row).order_by("created_at").last()
    return InvocationPage(
        row=row,
        timeline=_timeline(row, approval),
        arguments=inert.pretty(row.arguments),
        result=inert.pretty(row.result) if row.result is not None else "",
        error=inert.pretty(row.error) if row.error is not None else "",
        decision=decision,
        matched=inert.pretty(decision.matched) if decision is not None and decision.matched else "",
        approval=approval,
        events=list(ToolEvent.objects.filter(run_id=row.run_id, invocation_id=row.pk).order_by("id")),
        artifacts=list(Artifact.objects.filter(invocation_id=row.pk, adopted_at__isnull=False).order_by("created_at")),
        said=reasons.reason(row.reason_code).message if row.reason_code else "",
    )


def _timeline(row: Invocation, approval: ApprovalRequest | None) -> Timeline:
    commits = {
        7: ("held for approval", approval.created_at if approval else None),
        8: ("intent committed", row.authorized_at),
        9: ("first claim committed", row.started_at),
        10: ("effect watermark committed", row.effect_sent_at),
        13: ("result committed", row.completed_at),
    }
    held_until = (approval.decided_at or datetime.max.replace(tzinfo=UTC)) if approval else None
    return timeline.build(row.step_trace, commits, held_until)


def sessions_in_use(tenant_id: str, session_ids: Collection[UUID]) -> dict[UUID, bool]:
    """Return those of these sessions that are open and have a run that still takes steps; True: each such run waits.

    Transaction: opens one.
    """
    with tenant_transaction(tenant_id):
        found = Run.objects.filter(
            session_id__in=session_ids, session__closed_at=None, deadline_at__gt=database.now(),
            status__in=[status for status in RunStatus if status.accepts_steps],
        )  # fmt: skip
        calls = Invocation.objects.filter(tenant_id=tenant_id, run_id=OuterRef("id"), status=InvocationStatus.RUNNING)
        at_work = Count("id", filter=Q(status=RunStatus.RUNNING) | Q(Exists(calls)))
        counted = found.order_by().values_list("session_id").annotate(at_work=at_work)
        return {session_id: not count for session_id, count in counted}
