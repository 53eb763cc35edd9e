"""Recording what people decided about a held call: the row changes that belong to toolsys.

Who may decide is the business of `approvals`, which calls this inside its own transaction after its own checks. The
call itself goes on in a worker: it consumes the approval, or settles the row as denied.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from toolsys import database, queue
from toolsys.domain.states import ApprovalStatus
from toolsys.models import ApprovalRequest, Invocation
from toolsys.problems import Problem


@dataclass(frozen=True, slots=True)
class LockedRequest:
    """A request under its row lock, with what only the database's clock can say."""

    row: ApprovalRequest
    is_expired: bool


def lock_request(request_id: UUID) -> LockedRequest:
    """Lock first and look at the clock then: a wait for the lock counts as time passed.

    Transaction: needs one, of the tenant. Raises: Problem (request.not_found).
    """
    found = ApprovalRequest.objects.select_for_update().filter(pk=request_id).first()
    if found is None:
        raise Problem("request.not_found")
    return LockedRequest(found, is_expired(request_id))


def is_expired(request_id: UUID) -> bool:
    """Ask the database's clock, the only one that decides. Transaction: needs one, of the tenant."""
    return ApprovalRequest.objects.filter(pk=request_id, expires_at__lte=database.now()).exists()


def record_decision(request: ApprovalRequest, *, user: Any, is_approval: bool) -> ApprovalRequest:
    """Mark a locked request decided and ring for its call after the commit. Transaction: needs the lock's own."""
    status = ApprovalStatus.APPROVED if is_approval else ApprovalStatus.REJECTED
    ApprovalRequest.objects.filter(pk=request.pk).update(status=status, decided_by=user, decided_at=database.now())
    with connection.cursor() as cursor:
        cursor.execute("SELECT toolsys_record_decision(%s, %s)", [request.tenant_id, request.pk])
    request.refresh_from_db()
    epoch = Invocation.objects.values_list("claim_epoch", flat=True).get(pk=request.invocation_id)
    ring = partial(queue.enqueue_call, request.tenant_id, request.invocation_id, epoch)
    transaction.on_commit(ring, robust=True)  # a lost ring is no lost decision: the sweeper finds the call
    return request
