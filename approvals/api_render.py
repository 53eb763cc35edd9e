"""How approvals, grants and requests for access look over the API. Shapes only (`toolsys/api/answers.py`)."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from approvals.api_selectors import ApprovalView, Page
from approvals.models import AccessRequest
from toolsys.domain.spec import JsonObject
from toolsys.domain.states import ApprovalStatus
from toolsys.models import StandingGrant


def page(found: Page[Any], shown: Callable[[Any], JsonObject]) -> JsonObject:
    more = found.next_cursor is not None
    return {"data": [shown(row) for row in found.rows], "has_more": more, "next_cursor": found.next_cursor}


def approval(view: ApprovalView) -> JsonObject:
    """`arguments` are the redacted copy, as everywhere but in the call itself."""
    row, call = view.row, view.row.invocation
    is_pending = row.status == ApprovalStatus.PENDING
    return {
        "id": row.pk, "invocation_id": row.invocation_id, "run_id": row.run_id, "name": call.tool_name,
        "arguments": call.arguments, "side_effect": call.side_effect, "risk": call.risk,
        "status": ApprovalStatus.EXPIRED if view.is_expired else row.status, "verdict": row.verdict,
        "seats": row.seats, "seats_left": list(view.seats_left) if is_pending else [], "digest": row.digest,
        "rejection_code": row.rejection_code, "created_at": row.created_at, "expires_at": row.expires_at,
        "decided_at": row.decided_at, "consume_by": row.consume_by if row.status == ApprovalStatus.APPROVED else None,
    }  # fmt: skip


def grant(row: StandingGrant) -> JsonObject:
    return {
        "id": row.pk, "request_id": row.request_id, "name": row.tool_name, "agent_id": row.agent_id,
        "principal_id": row.principal_id, "status": grant_status(row), "conditions": row.conditions,
        "seats": row.seats, "maximum_uses": row.maximum_uses, "uses": row.uses, "note": row.note,
        "created_at": row.created_at, "expires_at": row.expires_at, "activated_at": row.activated_at,
        "revoked_at": row.revoked_at,
    }  # fmt: skip


def grant_status(row: StandingGrant) -> str:
    """For reading: whether a grant may be used, the database decides at the intent."""
    if row.revoked_at is not None:
        return "revoked"
    if row.expires_at <= datetime.now(UTC):
        return "expired"
    if row.activated_at is None:
        return "proposed"
    return "spent" if row.uses >= row.maximum_uses else "active"


def access(row: AccessRequest) -> JsonObject:
    return {
        "id": row.pk, "invocation_id": row.invocation_id, "run_id": row.run_id, "name": row.tool_name,
        "reason_code": row.reason_code, "status": row.status, "note": row.note, "answer": row.answer,
        "created_at": row.created_at, "answered_at": row.answered_at,
    }  # fmt: skip
