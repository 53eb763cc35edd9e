"""Deciding a held call: who may, under which lock, and what is recorded. One transaction each.

A vote locks its request first, so that two people decide one after the other. Four eyes: whoever answers for the key
that proposed cannot decide, and a key alone never can. Source: DESIGN §5.
"""

from typing import Any, Final
from uuid import UUID

from approvals.models import ApprovalVote
from toolsys import decisions
from toolsys.domain.states import ApprovalStatus, Role
from toolsys.models import ApprovalRequest, Invocation, Membership
from toolsys.problems import FieldError, Problem
from toolsys.tenancy import tenant_transaction

SEAT_ROLES: Final = {"expert": Role.EXPERT_APPROVER, "client": Role.CLIENT_APPROVER}


def decide(
    *, tenant_id: str, request_id: UUID, user: Any, is_approval: bool, note: str, digest: str
) -> ApprovalRequest:
    """Record one person's decision; the call goes on in a worker after the commit.

    `digest` is what the person was shown: if the request is about something else by now, nothing is decided.
    Raises: Problem (request.not_found, request.invalid, approval.decided, approval.expired, approval.changed,
    approval.own_call, auth.forbidden).
    """
    if not is_approval and not note.strip():
        raise Problem("request.invalid", [FieldError("/note", "say why")])
    with tenant_transaction(tenant_id):
        locked = decisions.lock_request(request_id)
        request = locked.row
        if request.status != ApprovalStatus.PENDING:
            raise Problem("approval.decided")
        if locked.is_expired:
            raise Problem("approval.expired")
        if request.digest != digest:
            raise Problem("approval.changed")
        seat = _seat(request, user)
        ApprovalVote.objects.create(
            tenant_id=tenant_id, request=request, user=user, seat=seat, is_approval=is_approval,
            note=note.strip()[:2000], digest=digest,
        )  # fmt: skip
        return decisions.record_decision(request, user=user, is_approval=is_approval)


def why_not(request: ApprovalRequest, user: Any) -> str | None:
    """Return the reason code that keeps this person from deciding, or None. Transaction: needs the tenant's."""
    try:
        _seat(request, user)
    except Problem as problem:
        return problem.reason_code
    return None


def _seat(request: ApprovalRequest, user: Any) -> str:
    roles = set(Membership.objects.filter(user=user).values_list("role", flat=True))
    if Invocation.objects.filter(pk=request.invocation_id, api_key__owner=user).exists():
        raise Problem("approval.own_call")
    for seat in request.seats:
        if SEAT_ROLES[seat] in roles:
            return str(seat)
    raise Problem("auth.forbidden")
