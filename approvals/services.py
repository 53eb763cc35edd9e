"""Deciding a held call: who may, under which lock, and what is recorded. One transaction each.

A vote locks its request first, so that two people decide one after the other. Four eyes: whoever answers for the key
that proposed cannot decide, and a key alone never can. Source: DESIGN §5.
"""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from approvals.models import ApprovalVote
from toolsys import decisions
from toolsys.domain.states import ApprovalStatus, Role
from toolsys.models import ApprovalRequest, Invocation, Membership
from toolsys.problems import FieldError, Problem
from toolsys.tenancy import tenant_transaction

SEAT_ROLES: Final = {"expert": Role.EXPERT_APPROVER, "client": Role.CLIENT_APPROVER}
NOTE_LIMIT: Final = 2_000


@dataclass(frozen=True, slots=True)
class Check:
    """One condition under which a person may decide; unmet, `reason_code` refuses and `unmet` explains."""

    sentence: str
    holds: bool
    reason_code: str
    unmet: str


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
    if len(note) > NOTE_LIMIT:
        raise Problem("request.invalid", [FieldError("/note", f"at most {NOTE_LIMIT:,} characters")])
    with tenant_transaction(tenant_id):
        locked = decisions.lock_request(request_id)
        for check in (*_open(locked.row, locked.is_expired), *_may_sit(locked.row, user)):
            if not check.holds:
                raise Problem(check.reason_code)
        if locked.row.digest != digest:
            raise Problem("approval.changed")
        seat = _seat(locked.row, user)
        assert seat is not None
        ApprovalVote.objects.create(
            tenant_id=tenant_id, request=locked.row, user=user, seat=seat, is_approval=is_approval, note=note.strip(),
            digest=digest,
        )  # fmt: skip
        return decisions.record_decision(locked.row, user=user, is_approval=is_approval)


def checks(request: ApprovalRequest, user: Any, *, is_expired: bool) -> list[Check]:
    """Say what `decide` would ask of this person now, and what of it holds. Transaction: needs the tenant's."""
    return [*_may_sit(request, user), *_open(request, is_expired)]


def _open(request: ApprovalRequest, is_expired: bool) -> tuple[Check, Check]:
    is_pending = request.status == ApprovalStatus.PENDING
    return (
        Check("It is not decided yet.", is_pending, "approval.decided", f"It is {request.status}."),
        Check("There is time left to decide.", not is_expired, "approval.expired", "The time has run out."),
    )


def _may_sit(request: ApprovalRequest, user: Any) -> tuple[Check, Check]:
    needed = " or ".join(SEAT_ROLES[seat].value.replace("_", " ") for seat in request.seats)
    has_seat = _seat(request, user) is not None
    is_own = Invocation.objects.filter(pk=request.invocation_id, api_key__owner=user).exists()
    return (
        Check(f"It takes the role {needed}.", has_seat, "auth.forbidden", "You do not have it in this organisation."),
        Check("Four eyes: not whoever answers for the proposing key.", not is_own, "approval.own_call",
              "You answer for it."),
    )  # fmt: skip


def _seat(request: ApprovalRequest, user: Any) -> str | None:
    roles = set(Membership.objects.filter(user=user).values_list("role", flat=True))
    return next((seat for seat in request.seats if SEAT_ROLES[seat] in roles), None)
