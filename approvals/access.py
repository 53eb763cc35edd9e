"""Requests for access: whoever was refused asks the tenant's admins, once for a tool and a reason in a run.

An answer changes no permission: the admin does that where permissions are. One transaction each. Source: issue 5.
"""

from typing import Any, Final
from uuid import UUID

from approvals.models import AccessRequest, AccessStatus
from toolsys import database
from toolsys.domain.states import InvocationStatus, Role
from toolsys.models import Invocation, Membership, Run
from toolsys.problems import FieldError, Problem
from toolsys.tenancy import tenant_transaction

RUN_LIMIT: Final = 5
NOTE_LIMIT: Final = 500
ASKABLE: Final = (
    "policy.agent.", "policy.scope.", "policy.manifest.", "policy.feature.", "policy.matrix.", "policy.rule.",
)  # fmt: skip


def ask_for_access(
    *, tenant_id: str, invocation_id: UUID, note: str = "", api_key_id: UUID | None = None, user: Any = None
) -> tuple[AccessRequest, bool]:
    """Ask from a refused call, with a key or as a developer; whether it was new. The second asking finds the first.

    Raises: Problem (request.not_found, request.invalid, auth.forbidden, access.not_refused, access.limit).
    """
    if len(note) > NOTE_LIMIT or "\0" in note:
        raise Problem("request.invalid", [FieldError("/note", f"at most {NOTE_LIMIT} characters")])
    with tenant_transaction(tenant_id):
        if user is not None and not Membership.objects.filter(user=user, role=Role.DEVELOPER).exists():
            raise Problem("auth.forbidden")
        call = Invocation.objects.filter(pk=invocation_id).only("run_id", "tool_name", "reason_code", "status").first()
        if call is None:
            raise Problem("request.not_found")
        code = call.reason_code or ""
        if call.status != InvocationStatus.DENIED or not code.startswith(ASKABLE):
            raise Problem("access.not_refused")
        # Two who ask at once: the second one finds what the first has written.
        Run.objects.select_for_update(no_key=True).only("id").get(pk=call.run_id)
        asked = AccessRequest.objects.filter(run_id=call.run_id)
        known = asked.filter(tool_name=call.tool_name, reason_code=code).first()
        if known is not None:
            return known, False
        if asked.count() >= RUN_LIMIT:
            raise Problem("access.limit")
        return AccessRequest.objects.create(
            tenant_id=tenant_id, run_id=call.run_id, invocation_id=call.pk, tool_name=call.tool_name,
            reason_code=code, api_key_id=api_key_id, asked_by=user, note=note.strip(),
        ), True  # fmt: skip


def answer_access(*, tenant_id: str, access_id: UUID, user: Any, is_granted: bool, answer: str = "") -> AccessRequest:
    """Say to whoever asked what an admin decided.

    Raises: Problem (request.not_found, request.invalid, auth.forbidden, access.decided).
    """
    if len(answer) > NOTE_LIMIT or "\0" in answer:
        raise Problem("request.invalid", [FieldError("/answer", f"at most {NOTE_LIMIT} characters")])
    with tenant_transaction(tenant_id):
        if not Membership.objects.filter(user=user, user__is_active=True, role=Role.TENANT_ADMIN).exists():
            raise Problem("auth.forbidden")
        found = AccessRequest.objects.select_for_update(no_key=True).filter(pk=access_id).first()
        if found is None:
            raise Problem("request.not_found")
        if found.status != AccessStatus.OPEN:
            raise Problem("access.decided")
        found.status = AccessStatus.GRANTED if is_granted else AccessStatus.DISMISSED
        found.answered_by, found.answered_at, found.answer = user, database.now(), answer.strip()
        found.save(update_fields=["status", "answered_by", "answered_at", "answer"])
        found.refresh_from_db()
        return found


def open_access_requests(limit: int = 200) -> list[AccessRequest]:
    """Return what waits for a tenant's admin, the newest first. Transaction: needs the tenant's."""
    found = AccessRequest.objects.filter(status=AccessStatus.OPEN).select_related("api_key", "asked_by")
    return list(found.order_by("-id")[:limit])
