"""Turns the JSON that the functions of `20_facts.sql` answer into the domain's `Facts`. No rules, no I/O."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from toolsys.domain.calls import (
    AgentFacts,
    Approval,
    Facts,
    Invocation,
    KeyFacts,
    RunFacts,
    SessionFacts,
    StepFacts,
)
from toolsys.domain.context import Principal
from toolsys.domain.repetition import Alarm
from toolsys.domain.seats import Seat
from toolsys.domain.spec import Classification, IdempotencyClass, RiskLevel, SideEffectClass
from toolsys.domain.states import ApprovalStatus, InvocationStatus, OutcomeStatus, PolicyVerdict, RunStatus
from toolsys.domain.trust import TrustLevel


@dataclass(frozen=True, slots=True)
class Standing:
    """Who acts and with what: session, agent, principal and key, as of one authorization epoch."""

    session: SessionFacts
    agent: AgentFacts
    principal: Principal
    key_id: UUID
    key_scopes: frozenset[str]
    is_key_revoked: bool
    key_expires_at: datetime | None


def session_of(found: dict[str, Any]) -> UUID:
    return UUID(found["run"]["session_id"])


def facts_from(tenant_id: str, found: dict[str, Any], standing: Standing) -> Facts:
    row, now = found["invocation"], datetime.fromisoformat(found["now"])
    is_expired = standing.key_expires_at is not None and standing.key_expires_at <= now
    return Facts(
        tenant_id=tenant_id,
        authz_epoch=found["authz_epoch"],
        database_epoch=found["database_epoch"],
        now=now,
        is_platform_enabled=found["platform_enabled"],
        is_tenant_enabled=found["tenant_enabled"],
        is_tool_calling_enabled=found["tool_calling"],
        run=_run(found["run"]),
        session=standing.session,
        agent=standing.agent,
        principal=standing.principal,
        key=KeyFacts(standing.key_id, not (standing.is_key_revoked or is_expired), standing.key_scopes),
        step=_step(found["step"]) if found["step"] else None,
        invocation=_invocation(row) if row else None,
        approval=_approval(row["approval"]) if row and row["approval"] else None,
    )


def standing_from(found: dict[str, Any]) -> Standing:
    key = found["key"]
    return Standing(
        session=_session(found["session"]),
        agent=_agent(found["agent"]),
        principal=_principal(found["principal"]),
        key_id=UUID(key["id"]),
        key_scopes=frozenset(key["scopes"]),
        is_key_revoked=key["revoked"],
        key_expires_at=_moment(key["expires_at"]),
    )


def _run(run: dict[str, Any]) -> RunFacts:
    return RunFacts(
        id=UUID(run["id"]),
        status=RunStatus(run["status"]),
        deadline_at=datetime.fromisoformat(run["deadline_at"]),
        is_expired=run["expired"],
        is_cancelled=run["cancelled"],
        manifest=None if run["manifest"] is None else tuple(run["manifest"]),
        delivered_trust=TrustLevel(run["delivered_trust"]),
        alarms=tuple(map(_alarm, run["alarms"])),
        previous_step=run["previous_step"],
        calls_left=run["calls_left"],
    )


def _alarm(row: dict[str, Any]) -> Alarm:
    outcome = row["outcome_status"]
    return Alarm(
        row["tool_name"], row["arguments_hash"], OutcomeStatus(outcome) if outcome else None, row["reason_code"],
        row["identical_count"], row["step_number"],
    )  # fmt: skip


def _session(session: dict[str, Any]) -> SessionFacts:
    return SessionFacts(
        UUID(session["id"]), session["sha"], session["profile"], session["environment"], session["closed"]
    )


def _agent(agent: dict[str, Any]) -> AgentFacts:
    return AgentFacts(UUID(agent["id"]), agent["name"], agent["enabled"], tuple(agent["tools"]))


def _principal(principal: dict[str, Any]) -> Principal:
    return Principal(UUID(principal["id"]), principal["external_id"], frozenset(principal["scopes"]))


def _step(step: dict[str, Any]) -> StepFacts:
    group = step["parallel_group"]
    return StepFacts(
        UUID(step["id"]), step["body_hash"], TrustLevel(step["origin_trust"]), UUID(group) if group else None
    )


def _invocation(row: dict[str, Any]) -> Invocation:
    return Invocation(
        id=UUID(row["id"]),
        status=InvocationStatus(row["status"]),
        tool_name=row["tool_name"],
        tool_version=row["tool_version"],
        arguments_hash=row["arguments_hash"],
        idempotency_key=row["idempotency_key"],
        classification=Classification(
            side_effect=SideEffectClass(row["side_effect"]),
            risk=RiskLevel(row["risk"]),
            idempotency=IdempotencyClass(row["idempotency_class"]),
        ),
        claim_epoch=row["claim_epoch"],
        is_lease_live=row["lease_live"],
        effect_sent_at=_moment(row["effect_sent_at"]),
        attempt_number=row["attempt_number"],
        verdict=PolicyVerdict(row["verdict"]) if row["verdict"] else PolicyVerdict.BLOCK,
        outcome_status=OutcomeStatus(row["outcome_status"]) if row["outcome_status"] else None,
        reason_code=row["reason_code"],
        suspended_kind=row["suspended_kind"],
        cancel_requested_at=_moment(row["cancel_requested_at"]),
        predates_database_epoch=row["old_epoch"],
    )


def _approval(approval: dict[str, Any]) -> Approval:
    return Approval(
        id=UUID(approval["id"]),
        status=ApprovalStatus(approval["status"]),
        digest=approval["digest"],
        verdict=PolicyVerdict(approval["verdict"]),
        is_expired=approval["expired"],
        is_consumable=approval["consumable"],
        seats=tuple(map(Seat, approval["seats"])),
        held=tuple(map(Seat, approval["held"])),
        rejection_code=approval["rejection_code"] or None,
    )


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
