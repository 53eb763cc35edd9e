"""Recording what people decided about a held call: the row changes that belong to toolsys.

Who may decide is the business of `approvals`, which calls this inside its own transaction, under the request's lock and
after its own checks. The call itself goes on in a worker: it consumes the approval, or settles the row as denied.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from toolsys import database, queue
from toolsys.domain.seats import Seat
from toolsys.domain.states import ApprovalStatus
from toolsys.models import ApprovalRequest
from toolsys.problems import Problem

# What a decision may follow upon; an approval can be taken back until its use.
_BEFORE: Final = {
    ApprovalStatus.APPROVED: ApprovalStatus.PENDING, ApprovalStatus.REJECTED: ApprovalStatus.PENDING,
    ApprovalStatus.VOIDED: ApprovalStatus.APPROVED,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SeatVote:
    """One person in one seat, as it was counted."""

    user_id: int
    seat: Seat


@dataclass(frozen=True, slots=True)
class LockedRequest:
    """A request under its row lock, with what only the database's clock can say."""

    row: ApprovalRequest
    is_expired: bool


def lock_request(request_id: UUID) -> LockedRequest:
    """Lock first and look at the clock then: a wait for the lock counts as time passed.

    Transaction: needs one, of the tenant. Raises: Problem (request.not_found).
    """
    found = ApprovalRequest.objects.select_for_update(no_key=True).filter(pk=request_id).first()
    if found is None:
        raise Problem("request.not_found")
    return LockedRequest(found, is_expired(request_id))


def is_expired(request_id: UUID) -> bool:
    """Ask the database's clock, the only one that decides. Transaction: needs one, of the tenant."""
    return ApprovalRequest.objects.filter(pk=request_id, expires_at__lte=database.now()).exists()


def record_decision(
    request: ApprovalRequest, status: ApprovalStatus, *, user: Any, votes: Sequence[SeatVote],
    rejection_code: str | None = None,
) -> ApprovalRequest:  # fmt: skip
    """Mark a locked request decided and ring for its call after the commit.

    Transaction: needs the lock's own. Raises: Problem (approval.decided), where it is no longer in the state before.
    """
    decision = {
        "from": _BEFORE[status], "status": status, "user": user.pk, "rejection_code": rejection_code,
        "votes": [{"user": vote.user_id, "seat": vote.seat} for vote in votes],
    }  # fmt: skip
    answer = database.call(
        "SELECT toolsys_commit_decision(%s, %s, %s)", (request.tenant_id, request.pk, database.as_json(decision))
    )[0][0]
    if answer is None:
        raise Problem("approval.decided")
    epoch = database.from_json(answer)["epoch"]
    ring = partial(queue.enqueue_call, request.tenant_id, request.invocation_id, epoch)
    transaction.on_commit(ring, robust=True)  # a lost ring is no lost decision: the sweeper finds the call
    request.refresh_from_db()
    return request
