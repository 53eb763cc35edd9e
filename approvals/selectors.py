"""Reads for the inbox and the decision page. Transaction: each needs the tenant's, which the console opens."""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from approvals import services
from approvals.models import ApprovalVote
from toolsys import database
from toolsys.domain.states import ApprovalStatus, Role
from toolsys.models import ApprovalRequest, Membership, PolicyDecision

TABS: Final = ("mine", "others", "decided", "expired")
LIST_LIMIT: Final = 200


@dataclass(frozen=True, slots=True)
class DecisionView:
    """Everything that the decision page shows of one request."""

    request: ApprovalRequest
    decision: PolicyDecision | None
    votes: list[ApprovalVote]
    blocked_by: str | None

    @property
    def is_open(self) -> bool:
        return self.request.status == ApprovalStatus.PENDING


def inbox(user: Any, tab: str) -> list[ApprovalRequest]:
    """Return the requests of one tab: what expires soonest first, what was decided last first."""
    found = _tab(user, tab).select_related("invocation", "run__session__agent", "run__session__principal")
    order = "expires_at" if tab in {"mine", "others"} else "-created_at"
    return list(found.order_by(order)[:LIST_LIMIT])


def counts(user: Any) -> dict[str, int]:
    return {tab: _tab(user, tab).count() for tab in TABS}


def decision_view(user: Any, request_id: UUID) -> DecisionView | None:
    request = (
        ApprovalRequest.objects.select_related(
            "invocation__api_key__owner", "run__session__agent", "run__session__principal", "decided_by"
        )
        .filter(pk=request_id)
        .first()
    )
    if request is None:
        return None
    decision = PolicyDecision.objects.filter(invocation_id=request.invocation_id).order_by("created_at").first()
    votes = list(ApprovalVote.objects.filter(request=request).select_related("user").order_by("created_at"))
    return DecisionView(request, decision, votes, services.why_not(request, user))


def _tab(user: Any, tab: str) -> "QuerySet[ApprovalRequest]":
    pending = ApprovalRequest.objects.filter(status=ApprovalStatus.PENDING)
    if tab == "decided":
        return ApprovalRequest.objects.exclude(status__in=[ApprovalStatus.PENDING, ApprovalStatus.EXPIRED])
    if tab == "expired":
        lapsed = pending.filter(expires_at__lte=database.now())
        return lapsed | ApprovalRequest.objects.filter(status=ApprovalStatus.EXPIRED)
    live = pending.filter(expires_at__gt=database.now())
    mine = live.filter(seats__0__in=_seats(user)).exclude(invocation__api_key__owner=user)
    return mine if tab == "mine" else live.exclude(pk__in=mine.values("pk"))


def _seats(user: Any) -> list[str]:
    roles = set(Membership.objects.filter(user=user).values_list("role", flat=True))
    return [seat for seat, role in services.SEAT_ROLES.items() if Role(role) in roles]
