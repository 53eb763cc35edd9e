"""Reads for the API's views of approvals, grants and requests for access. Transaction: each opens its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from approvals import ballots
from approvals.models import AccessRequest
from toolsys import database
from toolsys.domain.seats import Seat, left_of
from toolsys.domain.states import ApprovalStatus
from toolsys.models import ApprovalRequest, StandingGrant
from toolsys.problems import Problem
from toolsys.tenancy import tenant_transaction

PAGE_LIMIT: Final = 100


@dataclass(frozen=True, slots=True)
class ApprovalView:
    """`seats_left` are free; `is_expired`: nobody may decide it any more, whether or not that is recorded."""

    row: ApprovalRequest
    seats_left: tuple[Seat, ...]
    is_expired: bool


@dataclass(frozen=True, slots=True)
class Page[T]:
    rows: Sequence[T]
    next_cursor: UUID | None


def approvals(
    tenant_id: str, *, status: str | None, run_id: UUID | None, before: UUID | None, limit: int
) -> Page[ApprovalView]:
    with tenant_transaction(tenant_id):
        found = ApprovalRequest.objects.select_related("invocation").order_by("-id")
        found = found.filter(status=status) if status else found
        found = found.filter(run_id=run_id) if run_id else found
        return _page(found, before, limit, lambda rows: _views(rows))


def approval(tenant_id: str, approval_id: UUID) -> ApprovalView:
    """Raises: Problem (request.not_found)."""
    with tenant_transaction(tenant_id):
        row = ApprovalRequest.objects.select_related("invocation").filter(pk=approval_id).first()
        if row is None:
            raise Problem("request.not_found")
        return _views([row])[0]


def grants(tenant_id: str, *, before: UUID | None, limit: int) -> Page[StandingGrant]:
    with tenant_transaction(tenant_id):
        return _page(StandingGrant.objects.order_by("-id"), before, limit, list)


def access_requests(tenant_id: str, *, run_id: UUID | None, before: UUID | None, limit: int) -> Page[AccessRequest]:
    with tenant_transaction(tenant_id):
        found = AccessRequest.objects.order_by("-id")
        return _page(found.filter(run_id=run_id) if run_id else found, before, limit, list)


def _page[T](
    found: "QuerySet[Any]", before: UUID | None, limit: int, shaped: Callable[[list[Any]], Sequence[T]]
) -> Page[T]:
    rows = list((found.filter(pk__lt=before) if before else found)[: limit + 1])
    more = rows[limit - 1].pk if len(rows) > limit else None
    return Page(shaped(rows[:limit]), more)


def _views(rows: list[ApprovalRequest]) -> list[ApprovalView]:
    counted = ballots.seats_taken(rows)
    late = ApprovalRequest.objects.filter(status=ApprovalStatus.PENDING, expires_at__lte=database.now())
    lapsed = set(late.filter(pk__in=[row.pk for row in rows]).values_list("pk", flat=True))
    return [
        ApprovalView(row, left_of(tuple(map(Seat, row.seats)), counted.get(row.pk, ())), row.pk in lapsed)
        for row in rows
    ]
